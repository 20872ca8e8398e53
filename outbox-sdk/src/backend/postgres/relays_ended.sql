-- Those that stopped without a word: each start of a relay tidies up after earlier ones.
DELETE FROM {schema}.relay WHERE seen_until < clock_timestamp() - interval '1 hour'

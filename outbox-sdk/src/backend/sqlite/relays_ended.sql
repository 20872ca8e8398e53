-- Those that stopped without a word: each start of a relay tidies up after earlier ones.
DELETE FROM outbox_relay WHERE seen_until < CAST(unixepoch('subsec') * 1000000 AS INTEGER) - 3600 * 1000000

-- settle: the anchor is looked for by reads alone, and a write may come first.
-- instead of
        OR coalesce((SELECT event_id = $6 FROM {schema}.event WHERE id = $5::bigint), settled @> $5::bigint)
-- this
        OR $6::uuid IS NOT NULL

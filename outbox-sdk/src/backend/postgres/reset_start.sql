-- The first event whose transaction began at or after $1.
SELECT min(id) FROM {schema}.event WHERE created_at >= $1::timestamptz

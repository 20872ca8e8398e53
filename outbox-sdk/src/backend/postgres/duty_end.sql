-- $3 is why it failed, if it did.
UPDATE {schema}.duty
SET due_at = clock_timestamp() + $2::bigint * interval '1 microsecond',
    succeeded_at = CASE WHEN $3::text IS NULL THEN clock_timestamp() ELSE succeeded_at END,
    failures = CASE WHEN $3::text IS NULL THEN 0 ELSE failures + 1 END,
    last_error = $3
WHERE name = $1
RETURNING failures

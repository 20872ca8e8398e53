UPDATE {schema}.duty
SET due_at = clock_timestamp() + $2::bigint * interval '1 microsecond'
WHERE name = $1 AND (NOT $3 OR due_at <= clock_timestamp())
RETURNING position

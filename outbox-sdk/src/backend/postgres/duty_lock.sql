-- Whoever holds the row is at the duty; nobody waits for it.
SELECT FROM {schema}.duty WHERE name = $1 AND (NOT $2 OR due_at <= clock_timestamp()) FOR UPDATE SKIP LOCKED

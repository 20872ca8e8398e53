UPDATE {schema}.consumer
SET paused_until = NULL, pause_reason = NULL, paused_by = NULL, attempts = 0
WHERE name = $1

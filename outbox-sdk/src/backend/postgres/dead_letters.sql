-- Newest failure first; of one consumer, or of all when $1 is null.
SELECT consumer, event_id, reason, attempts, last_error, state
FROM {schema}.dead_letter
WHERE $1::text IS NULL OR consumer = $1
ORDER BY failed_at DESC, event_id DESC, consumer
LIMIT $2

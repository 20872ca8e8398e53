SELECT consumer, event_id, reason, attempts, last_error, state
FROM outbox_dead_letter
WHERE ?1 IS NULL OR consumer = ?1
ORDER BY failed_at DESC, event_id DESC, consumer
LIMIT ?2

-- The attempts at one event that are remembered, by consumer, oldest first.
SELECT consumer, attempt, replay, outcome, status, error, ended_at, duration_us
FROM outbox_delivery_attempt
WHERE event_id = ?1
ORDER BY consumer, id

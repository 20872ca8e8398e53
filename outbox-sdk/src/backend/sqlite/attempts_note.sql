-- ?1 is a JSON array of attempts, in their order. An event that is gone gets no history.
INSERT INTO outbox_delivery_attempt
    (event_id, consumer, attempt, replay, outcome, status, error, ended_at, duration_us)
SELECT
    value ->> 'event_id', value ->> 'consumer', value ->> 'attempt', value ->> 'replay', value ->> 'outcome',
    value ->> 'status', value ->> 'error',
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) - (value ->> 'ended_us_ago'), value ->> 'duration_us'
FROM json_each(?1)
WHERE EXISTS (SELECT 1 FROM outbox_event WHERE id = value ->> 'event_id')
ORDER BY key

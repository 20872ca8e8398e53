-- The status of the events in ?1 (JSON, ids) reflects their dead letters now.
UPDATE outbox_dead_letter
SET recorded = TRUE
WHERE NOT recorded AND event_id IN (SELECT value FROM json_each(?1))

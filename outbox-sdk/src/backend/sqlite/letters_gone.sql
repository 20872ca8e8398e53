-- The dead letters of deleted events (?1, JSON, ids).
DELETE FROM outbox_dead_letter WHERE event_id IN (SELECT value FROM json_each(?1))

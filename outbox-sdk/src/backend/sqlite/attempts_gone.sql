-- The attempts at deleted events (?1, JSON, ids).
DELETE FROM outbox_delivery_attempt WHERE event_id IN (SELECT value FROM json_each(?1))

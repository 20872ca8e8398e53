-- The keys that led to deleted events (?1, JSON, event_ids).
DELETE FROM outbox_idempotency WHERE event_id IN (SELECT value FROM json_each(?1))

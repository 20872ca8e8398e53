-- Takes the key of an event that must be written once; no row changes when it is taken already.
INSERT INTO outbox_idempotency (key, event_id) VALUES (?1, ?2) ON CONFLICT (key) DO NOTHING

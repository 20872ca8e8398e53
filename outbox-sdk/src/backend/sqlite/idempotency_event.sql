-- Which event the key led to.
SELECT event_id FROM outbox_idempotency WHERE key = ?1

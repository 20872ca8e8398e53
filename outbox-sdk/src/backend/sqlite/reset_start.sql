-- The first event that was written at or after ?1.
SELECT min(id) FROM outbox_event WHERE created_at >= ?1

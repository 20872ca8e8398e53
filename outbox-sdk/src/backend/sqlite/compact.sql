{expired}
DELETE FROM outbox_event WHERE id IN (SELECT id FROM expired) RETURNING id, event_id

-- The events of the JSON array ?2 that are new. Their rows come one by one, each with its effect: a commit of a handler's own
-- cannot be refused here.
SELECT DISTINCT value AS event_id
FROM json_each(?2)
WHERE NOT EXISTS (SELECT 1 FROM outbox_processed_event WHERE consumer = ?1 AND event_id = value)

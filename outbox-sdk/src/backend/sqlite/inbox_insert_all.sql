-- Answers with the events of the JSON array ?2 that are new.
INSERT INTO outbox_processed_event (consumer, event_id)
SELECT ?1, value FROM json_each(?2) WHERE true
ON CONFLICT (consumer, event_id) DO NOTHING
RETURNING event_id

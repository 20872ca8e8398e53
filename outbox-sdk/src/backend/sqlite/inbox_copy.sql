-- What consumer ?2 has processed counts for ?1 too, with the times at which that was.
INSERT INTO outbox_processed_event (consumer, event_id, processed_at)
SELECT ?1, event_id, processed_at FROM outbox_processed_event WHERE consumer = ?2
ON CONFLICT (consumer, event_id) DO NOTHING

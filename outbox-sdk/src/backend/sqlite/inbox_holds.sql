SELECT 1 FROM outbox_processed_event WHERE consumer = ?1 AND event_id = ?2

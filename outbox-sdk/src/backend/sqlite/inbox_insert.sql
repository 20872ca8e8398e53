INSERT INTO outbox_processed_event (consumer, event_id) VALUES (?1, ?2)
ON CONFLICT (consumer, event_id) DO NOTHING

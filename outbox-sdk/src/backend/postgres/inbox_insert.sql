-- Waits for another transaction that is processing the same event, and gives way to it if it commits.
INSERT INTO {schema}.processed_event (consumer, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING

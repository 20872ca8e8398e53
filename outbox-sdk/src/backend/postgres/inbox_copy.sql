-- What consumer $2 has processed counts for $1 too, with the times at which that was.
INSERT INTO {schema}.processed_event (consumer, event_id, processed_at)
SELECT $1, event_id, processed_at FROM {schema}.processed_event WHERE consumer = $2
ON CONFLICT DO NOTHING

-- Which event the key led to. A statement of its own: it must see what was committed while the insert waited.
SELECT event_id FROM {schema}.idempotency WHERE key = $1

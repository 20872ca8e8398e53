-- ?2 is a JSON array of stalls. `due`: microseconds from now, 'available' for the event's own time, null for the stored
-- one. The same head that goes on waiting for its schema keeps the moment when it began.
INSERT INTO outbox_stall (
    consumer, lane, head_id, attempts, available_at, blocked, single, missing_since, last_error
)
SELECT
    ?1, new.value ->> 'lane', new.value ->> 'head_id', new.value ->> 'attempts',
    CASE
        WHEN new.value ->> 'due' = 'available' THEN ifnull(event.available_at, now.micros)
        WHEN new.value ->> 'due' IS NULL THEN ifnull(stored.available_at, now.micros)
        ELSE now.micros + (new.value ->> 'due')
    END,
    new.value ->> 'blocked', new.value ->> 'single',
    CASE
        WHEN NOT new.value ->> 'schema_missing' THEN NULL
        WHEN stored.head_id = new.value ->> 'head_id' THEN ifnull(stored.missing_since, now.micros)
        ELSE now.micros
    END,
    new.value ->> 'last_error'
FROM (SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS micros) AS now
CROSS JOIN json_each(?2) AS new
LEFT JOIN outbox_event AS event ON event.id = new.value ->> 'head_id'
LEFT JOIN outbox_stall AS stored ON stored.consumer = ?1 AND stored.lane = new.value ->> 'lane'
WHERE TRUE
ON CONFLICT (consumer, lane) DO UPDATE
SET head_id = excluded.head_id,
    attempts = excluded.attempts,
    available_at = excluded.available_at,
    blocked = excluded.blocked,
    single = excluded.single,
    missing_since = excluded.missing_since,
    last_error = excluded.last_error

-- At most 1,000 rows of a consumer that are older than ?2 microseconds.
DELETE FROM outbox_processed_event
WHERE consumer = ?1 AND event_id IN (
    SELECT event_id
    FROM outbox_processed_event
    WHERE consumer = ?1 AND processed_at < CAST(unixepoch('subsec') * 1000000 AS INTEGER) - ?2
    LIMIT 1000
)

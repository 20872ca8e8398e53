-- At most 1,000 rows of a consumer that were processed at ?2 or later; all, without a time.
DELETE FROM outbox_processed_event
WHERE consumer = ?1 AND event_id IN (
    SELECT event_id
    FROM outbox_processed_event
    WHERE consumer = ?1 AND (?2 IS NULL OR processed_at >= ?2)
    LIMIT 1000
)

-- The row that settle.sql did not match, and whether the anchor (?3, ?4) is the reason.
SELECT
    epoch, rev,
    ?3 IS NULL
    OR ifnull((SELECT event_id = ?4 FROM outbox_event WHERE id = ?3), EXISTS (
        SELECT 1 FROM json_each(outbox_consumer.settled) AS span
        WHERE ?3 >= span.value ->> 0 AND ?3 < span.value ->> 1
    )) AS anchored
FROM outbox_consumer
WHERE name = ?1 AND slot = ?2

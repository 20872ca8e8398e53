-- What a batch of compact.sql would delete, by event type. One row at least, without a type.
WITH {walked},
letter AS MATERIALIZED (
    SELECT dead_letter.consumer, dead_letter.event_id, dead_letter.state, dead_letter.acknowledged_at
    FROM walked JOIN {schema}.dead_letter ON dead_letter.event_id = walked.id
    WHERE walked.old
),
{expired}
SELECT
    expired.event_type, count(expired.id) AS events, reach.scanned,
    CASE WHEN reach.goes_on THEN coalesce(reach.until, 0) ELSE 0 END AS position
FROM reach LEFT JOIN expired ON true
GROUP BY expired.event_type, reach.scanned, reach.goes_on, reach.until
ORDER BY expired.event_type

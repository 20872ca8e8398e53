-- Writes down what has become of the events in ?1 (JSON, ids) that no waiting lane covers.
UPDATE outbox_event
SET status = decided.status,
    attempts = ifnull(decided.attempts, outbox_event.attempts),
    last_error = iif(decided.status <> 'dispatched', decided.last_error, NULL),
    dispatched_at = iif(
        decided.status = 'dispatched', CAST(unixepoch('subsec') * 1000000 AS INTEGER), NULL
    )
FROM (
    SELECT
        seen.id,
        CASE
            WHEN letter.state IN ('dead', 'replay') THEN 'failed'
            WHEN letter.state = 'discarded' THEN 'skipped'
            ELSE 'dispatched'
        END AS status,
        letter.attempts, letter.last_error
    FROM json_each(?1) AS given
    CROSS JOIN outbox_event AS seen ON seen.id = given.value
    LEFT JOIN outbox_dead_letter AS letter
        ON letter.event_id = seen.id
       AND letter.consumer = (
           SELECT consumer
           FROM outbox_dead_letter
           WHERE event_id = seen.id AND state <> 'reset' AND consumer IN (SELECT name FROM outbox_consumer)
           ORDER BY state IN ('dead', 'replay') DESC, state = 'discarded' DESC, failed_at DESC, consumer
           LIMIT 1
       )
    WHERE NOT {covered}
) AS decided
WHERE outbox_event.id = decided.id
RETURNING outbox_event.id, outbox_event.status

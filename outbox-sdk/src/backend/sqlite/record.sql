-- Writes down what has become of the events in ?1 (JSON, ids), unless it stands there already: whoever is asked again,
-- after a reset or for another consumer's letter, may have the right status.
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
) AS decided
WHERE outbox_event.id = decided.id
  AND iif(
      decided.status = 'dispatched',
      outbox_event.status <> 'dispatched',
      (outbox_event.status, outbox_event.attempts, outbox_event.last_error)
          IS NOT (decided.status, decided.attempts, decided.last_error)
  )
RETURNING outbox_event.status

-- Dead letters that are to go again, with the aggregates of their events: each slot looks for its own.
SELECT
    letter.event_id AS letter_id, letter.attempts,
    event.id IS NOT NULL AS has_row, event.tenant_id, event.aggregate_type, event.aggregate_id
FROM (
    SELECT event_id, attempts
    FROM outbox_dead_letter
    WHERE consumer = ?1 AND state = 'replay' AND event_id > ?2
    ORDER BY event_id
    LIMIT ?3
) AS letter
LEFT JOIN outbox_event AS event ON event.id = letter.event_id
ORDER BY letter.event_id

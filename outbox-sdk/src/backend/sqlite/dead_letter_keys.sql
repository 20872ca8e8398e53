-- By rising id, from behind (?13, ?14): along outbox_dead_letter_event_idx; those that are named by
-- themselves.
SELECT letter.event_id AS id, letter.consumer, CAST(unixepoch('subsec') * 1000000 AS INTEGER) - event.created_at AS age
FROM {letters}
LEFT JOIN outbox_event AS event ON event.id = letter.event_id
WHERE (letter.event_id, letter.consumer) > (?13, ?14)
  AND {letter_filter}
ORDER BY letter.event_id, letter.consumer
LIMIT ?15

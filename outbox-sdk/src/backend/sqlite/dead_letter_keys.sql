-- By rising id, from behind (?13, ?14): along outbox_dead_letter_event_idx.
SELECT letter.event_id AS id, letter.consumer, CAST(unixepoch('subsec') * 1000000 AS INTEGER) - event.created_at AS age
FROM outbox_dead_letter AS letter INDEXED BY outbox_dead_letter_event_idx
LEFT JOIN outbox_event AS event ON event.id = letter.event_id
WHERE (letter.event_id, letter.consumer) > (?13, ?14)
  AND {letter_filter}
ORDER BY letter.event_id, letter.consumer
LIMIT ?15

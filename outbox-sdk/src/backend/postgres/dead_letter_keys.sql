-- By rising id, from behind ($13, $14): along dead_letter_event_idx.
SELECT letter.event_id AS id, letter.consumer, event.created_at, clock_timestamp() AS read_at
FROM {schema}.dead_letter AS letter LEFT JOIN {schema}.event AS event ON event.id = letter.event_id
WHERE (letter.event_id, letter.consumer) > ($13, $14)
    AND {letter_filter}
ORDER BY letter.event_id, letter.consumer
LIMIT $15

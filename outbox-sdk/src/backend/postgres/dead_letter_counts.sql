SELECT
    letter.consumer, letter.reason, letter.state, count(*) AS letters, count(letter.acknowledged_at) AS acknowledged
FROM {schema}.dead_letter AS letter LEFT JOIN {schema}.event AS event ON event.id = letter.event_id
WHERE {letter_filter}
GROUP BY letter.consumer, letter.reason, letter.state
ORDER BY letter.consumer, letter.reason, letter.state

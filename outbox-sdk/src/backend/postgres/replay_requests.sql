SELECT event_id, attempts
FROM {schema}.dead_letter
WHERE consumer = $1 AND state = 'replay' AND event_id > $2
ORDER BY event_id
LIMIT $3

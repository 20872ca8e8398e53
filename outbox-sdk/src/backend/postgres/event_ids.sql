-- An event_id has no index. The time in a version 7 bounds the search: the BRIN index leaves out all pages of other times.
SELECT event.id
FROM {schema}.event
WHERE event.event_id = $1
    AND ($2::timestamptz IS NULL OR event.created_at >= $2)
    AND ($3::timestamptz IS NULL OR event.created_at < $3)
ORDER BY event.id
LIMIT 10

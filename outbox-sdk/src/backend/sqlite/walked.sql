-- Which of the ids in ?1 (JSON, pairs of [from, until)) are stored, and whether each is older than ?2 microseconds.
SELECT event.id, event.created_at <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) - ?2 AS old
FROM json_each(?1) AS span CROSS JOIN outbox_event AS event
WHERE event.id >= span.value ->> 0 AND event.id < span.value ->> 1
ORDER BY event.id

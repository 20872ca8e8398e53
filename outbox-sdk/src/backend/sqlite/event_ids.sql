-- An event_id has no index, and neither has the time.
SELECT event.id
FROM outbox_event AS event
WHERE event.event_id = ?1
  AND (?2 IS NULL OR event.created_at >= ?2)
  AND (?3 IS NULL OR event.created_at < ?3)
ORDER BY event.id
LIMIT 10

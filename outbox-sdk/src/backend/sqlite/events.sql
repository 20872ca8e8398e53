-- Newest first, from behind ?10.
SELECT {event_columns}, NULL AS payload, NULL AS older_payloads
FROM outbox_event AS event
WHERE {event_filter}
ORDER BY event.id DESC
LIMIT ?11

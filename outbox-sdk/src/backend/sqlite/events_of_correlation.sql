-- As events.sql, by the correlation's index: a statement is planned without its values.
SELECT {event_columns}, NULL AS payload, NULL AS older_payloads
FROM outbox_event AS event
WHERE event.correlation_id = ?3
  AND {event_filter}
ORDER BY event.id DESC
LIMIT ?11

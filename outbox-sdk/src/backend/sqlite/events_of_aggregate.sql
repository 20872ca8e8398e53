-- As events.sql, by the aggregate's index: a statement is planned without its values.
SELECT {event_columns}, NULL AS payload, NULL AS older_payloads
FROM outbox_event AS event
WHERE event.aggregate_type = ?1 AND event.aggregate_id = ?2
  AND {event_filter}
ORDER BY event.id DESC
LIMIT ?11

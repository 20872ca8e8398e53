-- Every event with its payloads, along the primary key, from behind ?1.
SELECT event.id, event.event_type, event.schema_version, event.payload, event.older_payloads
FROM outbox_event AS event
WHERE event.id > ?1
ORDER BY event.id
LIMIT ?2

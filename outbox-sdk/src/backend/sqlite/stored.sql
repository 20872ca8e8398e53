-- Every event with its payloads and its lane, along the primary key, from behind ?1.
SELECT event.id, event.event_type, event.schema_version, event.payload, event.older_payloads,
    event.tenant_id, event.aggregate_type, event.aggregate_id,
    event.available_at > event.created_at AS delayed
FROM outbox_event AS event
WHERE event.id > ?1
ORDER BY event.id
LIMIT ?2

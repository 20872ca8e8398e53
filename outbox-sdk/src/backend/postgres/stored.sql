-- Every event with its payloads, along the primary key, from behind $1.
SELECT event.id, event.event_type, event.schema_version, event.payload::text AS payload,
    event.older_payloads::text AS older_payloads
FROM {schema}.event
WHERE event.id > $1
ORDER BY event.id
LIMIT $2

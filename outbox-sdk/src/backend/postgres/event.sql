SELECT
    {event_columns},
    CASE WHEN $2 THEN event.payload::text END AS payload,
    CASE WHEN $2 THEN event.older_payloads::text END AS older_payloads
FROM {schema}.event
WHERE event.id = $1

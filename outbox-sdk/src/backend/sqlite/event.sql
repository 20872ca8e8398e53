SELECT
    {event_columns},
    iif(?2, event.payload, NULL) AS payload,
    iif(?2, event.older_payloads, NULL) AS older_payloads
FROM outbox_event AS event
WHERE event.id = ?1

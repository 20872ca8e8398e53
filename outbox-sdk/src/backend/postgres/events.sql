-- Newest first, from behind $10: by the aggregate's index or that of the correlation where they are given, else along the
-- primary key until the page is full.
SELECT {event_columns}, NULL::text AS payload, NULL::text AS older_payloads
FROM {schema}.event
WHERE {event_filter}
ORDER BY event.id DESC
LIMIT $11

-- As events.sql, for a span of time: what the BRIN index leaves, then sorted. Along the primary key everything that is
-- newer would be read first.
WITH found AS MATERIALIZED (SELECT event.id FROM {schema}.event WHERE {event_filter})
SELECT {event_columns}, NULL::text AS payload, NULL::text AS older_payloads
FROM (SELECT found.id FROM found ORDER BY found.id DESC LIMIT $11) AS page JOIN {schema}.event USING (id)
ORDER BY event.id DESC

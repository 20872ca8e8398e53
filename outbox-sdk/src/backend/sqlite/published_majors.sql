-- The event types among the newest 1,000 events and the majors that they were published in, older forms included.
WITH recent AS (
    SELECT event_type, schema_version, older_payloads FROM outbox_event ORDER BY id DESC LIMIT 1000
)
SELECT event_type, CAST(schema_version AS TEXT) AS major FROM recent
UNION
SELECT recent.event_type, form.key FROM recent, json_each(recent.older_payloads) AS form

-- The event types among the newest 1,000 events and the majors that they were published in, older forms included.
SELECT DISTINCT recent.event_type, form.major
FROM
    (SELECT event_type, schema_version, older_payloads FROM {schema}.event ORDER BY id DESC LIMIT 1000) AS recent,
    LATERAL (
        SELECT recent.schema_version::text
        UNION ALL
        SELECT jsonb_object_keys(recent.older_payloads)
    ) AS form (major)

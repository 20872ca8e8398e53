SELECT
    name, slot,
    CASE WHEN lease_until >= clock_timestamp() THEN owner END AS owner,
    settled::text AS settled,
    (SELECT count(*) FROM {schema}.stall WHERE stall.consumer = consumer.name) AS stalled_lanes,
    (
        SELECT count(*) FROM {schema}.dead_letter
        WHERE dead_letter.consumer = consumer.name AND dead_letter.state = 'dead'
    ) AS dead_letters
FROM {schema}.consumer
ORDER BY name, slot

-- A relay's sign of life ($1 name, $2 lease, $3 what it can run), and every slot as it stands. The snapshot shows the
-- relay as it was before this statement, so it is counted from its own word.
WITH alive AS (
    INSERT INTO {schema}.relay (name, seen_until, consumers)
    VALUES ($1, clock_timestamp() + $2::bigint * interval '1 microsecond', $3::jsonb)
    ON CONFLICT (name) DO UPDATE SET seen_until = excluded.seen_until, consumers = excluded.consumers
)
SELECT
    name, slot, slots, owner, lease_until, coalesce(wanted_until > clock_timestamp(), false) AS wanted,
    ARRAY(
        SELECT relay.name
        FROM {schema}.relay
        WHERE relay.name <> $1
            AND relay.seen_until > clock_timestamp()
            AND relay.consumers -> consumer.name = consumer.config
        UNION ALL
        SELECT $1::text WHERE $3::jsonb -> consumer.name = consumer.config
        ORDER BY 1
    ) AS runnable_by,
    clock_timestamp() AS read_at
FROM {schema}.consumer
ORDER BY name, slot

-- Pending although settled by all and held by nothing, and older than $1 microseconds. The window of two hours is found by
-- the index on the time; whoever looks more often than that misses none.
WITH known AS MATERIALIZED ({known})
SELECT count(*) AS events, min(id) AS first_id
FROM (
    SELECT seen.id
    FROM
        (
            SELECT id, tenant_id, aggregate_type, aggregate_id, available_at > created_at AS delayed
            FROM {schema}.event
            WHERE status = 'pending'
                AND created_at <= now() - $1::bigint * interval '1 microsecond'
                AND created_at > now() - $1::bigint * interval '1 microsecond' - interval '2 hours'
        ) AS seen,
        known
    WHERE known.settled @> seen.id
        AND NOT EXISTS (
            SELECT FROM {schema}.dead_letter
            WHERE dead_letter.event_id = seen.id AND dead_letter.state IN ('dead', 'replay')
        )
        AND NOT ({covered})
    LIMIT 1000
) AS found

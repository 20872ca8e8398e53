-- The lowest $1 rows of the open gaps ($6, $7) and above the high-water mark ($5), merged by id: one statement, so one
-- snapshot. The limit stands in each branch, for the cost, and around both, for the order. With $8 also the notices: not
-- each time, since under a held snapshot the consumers' dead versions make them dear.
WITH picked AS MATERIALIZED (
    SELECT * FROM (
        (
            SELECT filled.*
            FROM unnest($6::bigint[], $7::bigint[]) AS gap (from_id, until_id),
                LATERAL (
                    SELECT * FROM {schema}.event WHERE id >= gap.from_id AND id < gap.until_id ORDER BY id LIMIT $1
                ) AS filled
            ORDER BY id
            LIMIT $1
        )
        UNION ALL
        (SELECT * FROM {schema}.event WHERE id > $5 ORDER BY id LIMIT $1)
    ) AS merged
    ORDER BY id
    LIMIT $1
),
{page}
SELECT server.*, page.*
FROM
    (
        SELECT
            NOT pg_is_in_recovery() AS on_primary,
            clock_timestamp() AS read_at,
            (SELECT event_id FROM {schema}.event WHERE id = $5) AS anchor,
            (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {schema}.event_id_seq) AS last_id,
            ({sees_all_rows}) AS sees_all_rows,
            CASE WHEN $8 THEN ARRAY(
                SELECT name
                FROM {schema}.consumer
                WHERE EXISTS (
                        SELECT FROM {schema}.dead_letter AS letter
                        WHERE letter.consumer = name AND letter.state = 'replay'
                    )
                    OR EXISTS (
                        SELECT
                        FROM {schema}.dead_letter AS letter, LATERAL ({blocked_head}) AS head
                        WHERE letter.consumer = name AND letter.state = 'discarded' AND NOT letter.recorded
                    )
                GROUP BY name
                ORDER BY name
            ) END AS replays,
            CASE WHEN $8 THEN ARRAY(
                SELECT DISTINCT name
                FROM {schema}.consumer
                WHERE (owner IS NULL OR lease_until < clock_timestamp())
                    AND (wanted_until IS NULL OR wanted_until <= clock_timestamp())
                ORDER BY name
            ) END AS free_slots,
            CASE WHEN $8 THEN ARRAY(
                SELECT DISTINCT name
                FROM {schema}.consumer
                WHERE paused_by <> 'breaker' AND paused_until > clock_timestamp()
                ORDER BY name
            ) END AS held
    ) AS server
    LEFT JOIN page ON true
ORDER BY page.id

-- The lowest $1 rows of the open gaps ($6, $7) and above the high-water mark ($5), merged by id: one statement, so one
-- snapshot. The limit stands in each branch, for the cost, and around both, for the order.
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
            ({sees_all_rows}) AS sees_all_rows
    ) AS server
    LEFT JOIN page ON true
ORDER BY page.id

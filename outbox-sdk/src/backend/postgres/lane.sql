-- A page of one aggregate's events by index. Delayed events are lanes of their own.
WITH picked AS MATERIALIZED (
    SELECT *
    FROM {schema}.event
    WHERE aggregate_type = $8
        AND aggregate_id = $9
        AND tenant_id IS NOT DISTINCT FROM $7
        AND id BETWEEN $5 AND $6
        AND available_at <= created_at
    ORDER BY id
    LIMIT $1
),
{page}
SELECT clock_timestamp() AS read_at, page.* FROM page ORDER BY id

-- The one event of a lane of its own.
WITH picked AS MATERIALIZED (
    SELECT * FROM {schema}.event WHERE id = $7 AND id BETWEEN $5 AND $6 LIMIT $1
),
{page}
SELECT clock_timestamp() AS read_at, page.* FROM page ORDER BY id

-- The one event of a lane of its own.
WITH picked AS MATERIALIZED (
    SELECT * FROM {schema}.event WHERE id = $6 AND id BETWEEN $4 AND $5 LIMIT $1
),
{page}
SELECT clock_timestamp() AS read_at, page.* FROM page ORDER BY id

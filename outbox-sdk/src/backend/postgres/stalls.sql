-- At most $3 waiting lanes of a consumer behind the key $2, with the aggregate of an event that waits alone: its slot is
-- that of its row. After the claim's update and in a statement of its own: it must see what the owner before committed
-- while the update waited for the row.
SELECT
    lane, head_id, stall.attempts, stall.available_at, blocked, single, missing_since,
    event.id IS NOT NULL AS has_row, event.tenant_id, event.aggregate_type, event.aggregate_id,
    clock_timestamp() AS read_at
FROM (SELECT * FROM {schema}.stall WHERE consumer = $1 AND lane > $2 ORDER BY lane LIMIT $3) AS stall
    LEFT JOIN {schema}.event ON single AND event.id = head_id
ORDER BY lane

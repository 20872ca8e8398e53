-- Every waiting lane of a consumer. After the claim's update and in a statement of its own: it must see what the owner
-- before committed while the update waited for the row.
SELECT
    lane, head_id, attempts, available_at, blocked, single, missing_since, clock_timestamp() AS read_at
FROM {schema}.stall
WHERE consumer = $1
ORDER BY lane

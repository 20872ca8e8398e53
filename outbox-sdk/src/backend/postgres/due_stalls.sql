SELECT lane, available_at, clock_timestamp() AS read_at
FROM {schema}.stall
WHERE consumer = $1 AND lane = ANY ($2)
ORDER BY available_at, lane

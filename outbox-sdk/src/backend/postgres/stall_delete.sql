DELETE FROM {schema}.stall WHERE consumer = $1 AND lane = ANY ($2)

DELETE FROM {schema}.stall WHERE consumer = $1

DELETE FROM {schema}.delivery_attempt WHERE consumer = $1

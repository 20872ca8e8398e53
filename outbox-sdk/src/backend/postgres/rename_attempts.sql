UPDATE {schema}.delivery_attempt SET consumer = $2 WHERE consumer = $1

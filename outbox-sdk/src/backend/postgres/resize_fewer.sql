DELETE FROM {schema}.consumer WHERE name = $1 AND slot >= $2

DELETE FROM {schema}.consumer WHERE name = $1

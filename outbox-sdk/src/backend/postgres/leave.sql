DELETE FROM {schema}.relay WHERE name = $1

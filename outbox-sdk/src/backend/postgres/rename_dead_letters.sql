UPDATE {schema}.dead_letter SET consumer = $2 WHERE consumer = $1

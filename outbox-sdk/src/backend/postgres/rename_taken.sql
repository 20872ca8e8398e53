SELECT EXISTS (SELECT FROM {schema}.consumer WHERE name = $1)
    OR EXISTS (SELECT FROM {schema}.stall WHERE consumer = $1)
    OR EXISTS (SELECT FROM {schema}.dead_letter WHERE consumer = $1)

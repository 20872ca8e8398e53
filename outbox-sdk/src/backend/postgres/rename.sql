UPDATE {schema}.consumer
SET name = $2,
    epoch = nextval({epoch}::regclass),
    rev = 0,
    owner = NULL,
    lease_until = NULL,
    wanted = NULL,
    wanted_until = NULL
WHERE name = $1

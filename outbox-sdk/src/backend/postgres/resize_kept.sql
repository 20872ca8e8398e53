UPDATE {schema}.consumer
SET slots = $2,
    settled = $3::int8multirange,
    void = $4::int8multirange,
    epoch = nextval({epoch}::regclass),
    rev = 0,
    owner = NULL,
    lease_until = NULL,
    wanted = NULL,
    wanted_until = NULL
WHERE name = $1

UPDATE {schema}.consumer
SET settled = settled - int8multirange(int8range($2, NULL)),
    void = void - int8multirange(int8range($2, NULL)),
    skipped = skipped - int8multirange(int8range($2, NULL)),
    epoch = nextval({epoch}::regclass),
    anchor_id = NULL,
    anchor_event_id = NULL,
    rev = 0,
    owner = NULL,
    lease_until = NULL,
    wanted = NULL,
    wanted_until = NULL
WHERE name = $1

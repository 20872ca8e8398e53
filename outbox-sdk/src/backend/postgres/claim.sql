-- Takes a free slot of a consumer that has this configuration ($5) and this many slots ($6), and that nobody asks for.
-- `clean` looks at the row as it was before: its owner gave it back, or it never had one.
UPDATE {schema}.consumer
SET owner = $3,
    epoch = nextval({epoch}::regclass),
    rev = consumer.rev + 1,
    last_error = NULL,
    lease_until = clock_timestamp() + $4::bigint * interval '1 microsecond',
    wanted = NULL,
    wanted_until = NULL
FROM (
    SELECT name, slot, owner IS NULL AS clean
    FROM {schema}.consumer
    WHERE name = $1
        AND slot = $2
        AND config = $5::jsonb
        AND slots = $6
        AND coalesce(wanted_until <= clock_timestamp(), true)
        AND (owner IS NULL OR lease_until < clock_timestamp())
    FOR UPDATE
) AS free
WHERE consumer.name = free.name AND consumer.slot = free.slot
RETURNING
    consumer.ctid::text AS ctid, consumer.epoch, consumer.rev, settled::text AS settled, void::text AS void,
    paused_until, coalesce(paused_by <> 'breaker', false) AS held, attempts, clean, clock_timestamp() AS read_at

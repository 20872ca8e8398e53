-- How much a new consumer would be sent from the beginning: counted while that is cheap, else as the planner knows it.
SELECT greatest(
    (SELECT count(*) FROM (SELECT FROM {schema}.event LIMIT 100000) AS counted),
    (SELECT reltuples::bigint FROM pg_class WHERE oid = {event}::regclass)
)

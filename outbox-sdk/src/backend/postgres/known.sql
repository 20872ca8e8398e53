-- Which ids every slot of every consumer has settled: of several slots each settles what it passes on to the others, so
-- this is a safe lower bound. Empty while nobody is registered. Without dead gaps: a row that turns up in one has been
-- delivered to nobody.
SELECT coalesce(range_intersect_agg(settled), '{}'::int8multirange) - (
    SELECT coalesce(range_agg(gap), '{}'::int8multirange) FROM {schema}.consumer, unnest(void) AS gap
) AS settled
FROM {schema}.consumer

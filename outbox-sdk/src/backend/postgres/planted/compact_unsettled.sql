-- compact: whatever was dispatched long ago goes, whoever has not had it.
-- instead of
{expired},
-- this
expired AS MATERIALIZED (
    SELECT id, event_type, status
    FROM {schema}.event
    WHERE status = 'dispatched' AND dispatched_at <= now() - interval '10 days'
),

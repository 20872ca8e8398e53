-- As inbox_insert, for a batch that begins under tenant $3; answers with the events that are new. In the order of their
-- ids, so that two batches with the same events wait for each other and never in a circle.
WITH tenant AS MATERIALIZED (SELECT set_config({tenant_setting}, coalesce($3::uuid::text, ''), true))
INSERT INTO {schema}.processed_event (consumer, event_id)
SELECT $1::text, event.event_id FROM tenant, pg_catalog.unnest($2::uuid[]) AS event (event_id) ORDER BY event.event_id
ON CONFLICT DO NOTHING
RETURNING event_id

-- From here on the transaction runs under tenant $3, none being the empty text. Then the row: it waits for another
-- transaction that is processing the same event, and gives way to it if it commits.
WITH tenant AS MATERIALIZED (SELECT set_config({tenant_setting}, coalesce($3::uuid::text, ''), true))
INSERT INTO {schema}.processed_event (consumer, event_id)
SELECT $1::text, $2::uuid FROM tenant
ON CONFLICT DO NOTHING

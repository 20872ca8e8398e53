-- One event. The aggregate's lock is a source of the row, so it is held before the id is drawn; as a scalar subquery
-- in VALUES it would be taken after, and in a CTE that nothing refers to, never.
INSERT INTO {schema}.event (
    event_id, tenant_id, event_type, schema_version, aggregate_type, aggregate_id, audit_log_id, correlation_id,
    causation_id, actor, traceparent, tracestate, payload, older_payloads, available_at, occurred_at
)
SELECT
    $1, effective.tenant_id, $3, $4, $5, $6, $7, $8, $9, $10::jsonb, $11, $12, $13::jsonb, $14::jsonb,
    now() + $15::bigint::double precision * interval '1 microsecond', coalesce($16::timestamptz, clock_timestamp())
FROM
    (SELECT coalesce($2::uuid, {schema}.current_tenant()) AS tenant_id) AS effective,
    LATERAL (
        SELECT pg_advisory_xact_lock({lane_lock}, {schema}.bucket(effective.tenant_id, $5, $6))
    ) AS locked
RETURNING id, event_id

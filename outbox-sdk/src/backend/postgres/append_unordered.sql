-- One event without its aggregate's lock.
INSERT INTO {schema}.event (
    event_id, tenant_id, event_type, schema_version, aggregate_type, aggregate_id, audit_log_id, correlation_id,
    causation_id, actor, traceparent, tracestate, payload, older_payloads, available_at, occurred_at
)
SELECT
    $1, coalesce($2::uuid, {schema}.current_tenant()), $3, $4, $5, $6, $7, $8, $9, $10::jsonb, $11, $12, $13::jsonb,
    $14::jsonb, now() + $15::bigint::double precision * interval '1 microsecond', coalesce($16::timestamptz, clock_timestamp())
RETURNING id, event_id

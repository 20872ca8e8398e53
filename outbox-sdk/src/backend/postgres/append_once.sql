-- One event under a key, once: nothing is written when the key is there. A transaction that has just written the key and
-- is still open is waited for. The key is a source of the row, as is the aggregate's lock ($18: whether to take it; a lock
-- on NULL is none).
WITH claimed AS (
    INSERT INTO {schema}.idempotency (key, event_id) VALUES ($17, $1) ON CONFLICT (key) DO NOTHING RETURNING key
)
INSERT INTO {schema}.event (
    event_id, tenant_id, event_type, schema_version, aggregate_type, aggregate_id, audit_log_id, correlation_id,
    causation_id, actor, traceparent, tracestate, payload, older_payloads, available_at, occurred_at
)
SELECT
    $1, effective.tenant_id, $3, $4, $5, $6, $7, $8, $9, $10::jsonb, $11, $12, $13::jsonb, $14::jsonb,
    now() + $15::bigint::double precision * interval '1 microsecond', coalesce($16::timestamptz, clock_timestamp())
FROM
    claimed,
    (SELECT coalesce($2::uuid, {schema}.current_tenant()) AS tenant_id) AS effective,
    LATERAL (
        SELECT pg_advisory_xact_lock(
            {lane_lock}, CASE WHEN $18 THEN {schema}.bucket(effective.tenant_id, $5, $6) END
        )
    ) AS locked
RETURNING id, event_id

-- Many events, ids in the order given. All locks are held before the first id is drawn: counting the locks makes every
-- row wait for every one of them. Buckets are sorted, so that two bulk writers cannot deadlock on them.
WITH locked AS MATERIALIZED (
    SELECT pg_advisory_xact_lock({lane_lock}, bucket)
    FROM (
        SELECT DISTINCT {schema}.bucket(
            coalesce(tenant_id, {schema}.current_tenant()), aggregate_type, aggregate_id
        ) AS bucket
        FROM unnest($2::uuid[], $5::text[], $6::text[]) AS lane (tenant_id, aggregate_type, aggregate_id)
        WHERE aggregate_id IS NOT NULL
        ORDER BY bucket
    ) AS sorted
)
INSERT INTO {schema}.event (
    event_id, tenant_id, event_type, schema_version, aggregate_type, aggregate_id, audit_log_id, correlation_id,
    causation_id, actor, traceparent, tracestate, payload, older_payloads, available_at, occurred_at
)
SELECT
    event_id, coalesce(tenant_id, {schema}.current_tenant()), event_type, schema_version, aggregate_type, aggregate_id,
    audit_log_id, correlation_id, causation_id, actor::jsonb, traceparent, tracestate, payload::jsonb,
    older_payloads::jsonb, now() + delay::double precision * interval '1 microsecond', coalesce(occurred_at, clock_timestamp())
FROM
    (SELECT count(*) FROM locked) AS all_locked,
    unnest(
        $1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::text[], $6::text[], $7::bigint[], $8::uuid[], $9::uuid[],
        $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::bigint[], $16::timestamptz[]
    ) WITH ORDINALITY AS event (
        event_id, tenant_id, event_type, schema_version, aggregate_type, aggregate_id, audit_log_id, correlation_id,
        causation_id, actor, traceparent, tracestate, payload, older_payloads, delay, occurred_at, position
    )
ORDER BY position
RETURNING id, event_id

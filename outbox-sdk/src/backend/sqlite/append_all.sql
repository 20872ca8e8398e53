-- Many events, from one JSON array. Texts inside it come out exactly as they went in, payloads too. The order of
-- the array is the order of the ids; RETURNING promises no order.
INSERT INTO outbox_event (
    event_id, event_type, schema_version, aggregate_type, aggregate_id, tenant_id, correlation_id, causation_id, actor,
    audit_log_id, traceparent, tracestate, payload, older_payloads, available_at, occurred_at
)
SELECT
    value ->> 'event_id', value ->> 'event_type', value ->> 'schema_version', value ->> 'aggregate_type',
    value ->> 'aggregate_id', value ->> 'tenant_id', value ->> 'correlation_id', value ->> 'causation_id',
    value ->> 'actor', value ->> 'audit_log_id', value ->> 'traceparent', value ->> 'tracestate',
    value ->> 'payload', value ->> 'older_payloads',
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) + (value ->> 'delay'),
    ifnull(value ->> 'occurred_at', CAST(unixepoch('subsec') * 1000000 AS INTEGER))
FROM json_each(?1)
ORDER BY key
RETURNING id, event_id

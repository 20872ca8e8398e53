-- One event. SQLite has one writer at a time, so no lock is needed for id order to be commit order.
INSERT INTO outbox_event (
    event_id, event_type, schema_version, aggregate_type, aggregate_id, tenant_id, correlation_id, causation_id, actor,
    audit_log_id, traceparent, tracestate, payload, older_payloads, available_at, occurred_at
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14,
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ?15,
    ifnull(?16, CAST(unixepoch('subsec') * 1000000 AS INTEGER))
)
RETURNING id, event_id

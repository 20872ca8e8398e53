event.id, event.event_id, event.tenant_id, event.event_type, event.schema_version, event.aggregate_type,
    event.aggregate_id, event.audit_log_id, event.correlation_id, event.causation_id, event.actor, event.traceparent,
    event.tracestate, event.occurred_at, event.created_at, event.available_at, event.status, event.attempts,
    event.last_error, event.dispatched_at,
    (SELECT json_group_array(key) FROM json_each(event.older_payloads)) AS older_majors

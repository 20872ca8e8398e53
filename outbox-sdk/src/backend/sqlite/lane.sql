-- The undelayed events of the lane (?1, ?2, ?3) with ids from ?4 through ?5, cut as in read.sql: at most ?6 rows and ?7
-- bytes, no payload longer than ?8 bytes, and none when ?9.
WITH candidate (id) AS MATERIALIZED (
    SELECT id
    FROM outbox_event
    WHERE aggregate_type = ?2 AND aggregate_id = ?3 AND tenant_id IS ?1
      AND id BETWEEN ?4 AND ?5 AND available_at <= created_at
    ORDER BY id
    LIMIT ?6
),
sized AS (
    SELECT id, octet_length(payload) AS payload_bytes, ifnull(octet_length(older_payloads), 0) AS older_bytes
    FROM candidate JOIN outbox_event USING (id)
),
carried AS (
    SELECT id, payload_bytes, ?9 OR payload_bytes > ?8 AS left_out,
           sum(iif(?9 OR payload_bytes > ?8, 0, payload_bytes + older_bytes)) OVER (ORDER BY id) AS running,
           row_number() OVER (ORDER BY id) AS nth
    FROM sized
)
SELECT
    (SELECT count(*) FROM candidate) AS candidates,
    id, event_id, tenant_id, event_type, schema_version, aggregate_type, aggregate_id, audit_log_id,
    correlation_id, causation_id, iif(?9, NULL, actor) AS actor, traceparent, tracestate,
    iif(left_out, NULL, payload) AS payload,
    iif(left_out, NULL, older_payloads) AS older_payloads,
    iif(left_out, payload_bytes, NULL) AS left_out_bytes,
    occurred_at, created_at,
    available_at > created_at AS delayed,
    CAST(available_at - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS INTEGER) AS due_in
FROM carried JOIN outbox_event USING (id)
WHERE running <= ?7 OR nth = 1
ORDER BY id

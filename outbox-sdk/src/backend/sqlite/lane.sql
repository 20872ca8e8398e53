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
    SELECT
        id,
        octet_length(payload) + ifnull(octet_length(older_payloads), 0) + ifnull(octet_length(actor), 0) AS bytes,
        max(octet_length(payload), ifnull(octet_length(older_payloads), 0), ifnull(octet_length(actor), 0)) AS longest
    FROM candidate JOIN outbox_event USING (id)
),
carried AS (
    SELECT id, longest, ?9 OR longest > ?8 AS left_out,
           sum(iif(?9 OR longest > ?8, 0, bytes)) OVER (ORDER BY id) AS running,
           row_number() OVER (ORDER BY id) AS nth
    FROM sized
)
SELECT
    (SELECT count(*) FROM candidate) AS candidates,
    id, event_id, tenant_id, event_type, schema_version, aggregate_type, aggregate_id, audit_log_id,
    correlation_id, causation_id, iif(left_out, NULL, actor) AS actor, traceparent, tracestate,
    iif(left_out, NULL, payload) AS payload,
    iif(left_out, NULL, older_payloads) AS older_payloads,
    iif(left_out, longest, NULL) AS left_out_bytes,
    occurred_at, created_at,
    available_at > created_at AS delayed,
    CAST(available_at - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS INTEGER) AS due_in
FROM carried JOIN outbox_event USING (id)
WHERE running <= ?7 OR nth = 1
ORDER BY id

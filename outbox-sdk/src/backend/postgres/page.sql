-- A page is the head of `picked`, the rows that a read may return, as far as $2 bytes reach; its first row comes
-- whatever its size. The stored sizes cut first, so that little text is made in vain, then the texts' own lengths. A
-- payload of more than $3 bytes stays behind, only its size comes.
texts AS MATERIALIZED (
    SELECT
        id, event_id, tenant_id, event_type, schema_version, aggregate_type, aggregate_id, audit_log_id,
        correlation_id, causation_id, traceparent, tracestate, available_at, occurred_at, created_at,
        actor::text AS actor, payload::text AS payload, older_payloads::text AS older_payloads
    FROM picked
    WHERE id <= (
        SELECT max(id)
        FROM (
            SELECT
                id,
                sum(pg_column_size(payload) + coalesce(pg_column_size(older_payloads), 0)) OVER (
                    ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS bytes_before
            FROM picked
        ) AS stored
        WHERE coalesce(bytes_before, 0) <= $2
    )
),
page AS (
    SELECT
        id, event_id, tenant_id, event_type, schema_version, aggregate_type, aggregate_id, audit_log_id,
        correlation_id, causation_id, traceparent, tracestate, available_at, occurred_at, created_at, actor,
        (SELECT count(*) FROM picked) AS picked_rows,
        octet_length(payload)::bigint AS payload_bytes,
        CASE WHEN octet_length(payload) <= $3 THEN payload END AS payload,
        CASE WHEN octet_length(payload) <= $3 THEN older_payloads END AS older_payloads
    FROM texts
    WHERE id <= (
        SELECT max(id)
        FROM (
            SELECT
                id,
                row_number() OVER in_order AS place,
                sum(
                    CASE
                        WHEN octet_length(payload) > $3 THEN 0
                        ELSE octet_length(payload) + coalesce(octet_length(older_payloads), 0)
                    END
                ) OVER in_order AS bytes
            FROM texts
            WINDOW in_order AS (ORDER BY id ROWS UNBOUNDED PRECEDING)
        ) AS written
        WHERE bytes <= $2 OR place = 1
    )
)

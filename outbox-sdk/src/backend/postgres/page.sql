-- A page is the head of `picked`, the rows that a read may return, as far as $2 bytes reach; its first row comes
-- whatever its size. The stored sizes cut first, so that little text is made in vain, then the texts' own lengths. If
-- one of a row's texts has more than $3 bytes they all stay behind, only that size comes: a few bytes of numeric can
-- print hundreds of megabytes, so a text is made once (OFFSET 0 keeps it from being made again at each use) and never
-- stored. When $4, no text is made of any jsonb: one that is too large for the server fails the whole read.
texts AS MATERIALIZED (
    SELECT
        id, event_id, tenant_id, event_type, schema_version, aggregate_type, aggregate_id, audit_log_id,
        correlation_id, causation_id, traceparent, tracestate, available_at, occurred_at, created_at,
        sized.longest::bigint AS payload_bytes,
        CASE WHEN sized.longest <= $3 THEN made.payload END AS payload,
        CASE WHEN sized.longest <= $3 THEN made.older_payloads END AS older_payloads,
        CASE WHEN sized.longest <= $3 THEN made.actor END AS actor
    FROM
        picked,
        LATERAL (
            SELECT
                CASE WHEN NOT $4 THEN picked.payload::text END,
                CASE WHEN NOT $4 THEN picked.older_payloads::text END,
                CASE WHEN NOT $4 THEN picked.actor::text END
            OFFSET 0
        ) AS made (payload, older_payloads, actor),
        LATERAL (
            SELECT greatest(octet_length(made.payload), octet_length(made.older_payloads), octet_length(made.actor))
            OFFSET 0
        ) AS sized (longest)
    WHERE id <= (
        SELECT max(id)
        FROM (
            SELECT
                id,
                sum(
                    pg_column_size(payload) + coalesce(pg_column_size(older_payloads), 0)
                    + coalesce(pg_column_size(actor), 0)
                ) OVER (
                    ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS bytes_before
            FROM picked
        ) AS stored
        WHERE $4 OR coalesce(bytes_before, 0) <= $2
    )
),
page AS (
    SELECT
        id, event_id, tenant_id, event_type, schema_version, aggregate_type, aggregate_id, audit_log_id,
        correlation_id, causation_id, traceparent, tracestate, available_at, occurred_at, created_at, actor,
        (SELECT count(*) FROM picked) AS picked_rows,
        payload_bytes, payload, older_payloads
    FROM texts
    WHERE id <= (
        SELECT max(id)
        FROM (
            SELECT
                id,
                row_number() OVER in_order AS place,
                sum(
                    coalesce(octet_length(payload), 0) + coalesce(octet_length(older_payloads), 0)
                    + coalesce(octet_length(actor), 0)
                ) OVER in_order AS bytes
            FROM texts
            WINDOW in_order AS (ORDER BY id ROWS UNBOUNDED PRECEDING)
        ) AS written
        WHERE bytes <= $2 OR place = 1
    )
)

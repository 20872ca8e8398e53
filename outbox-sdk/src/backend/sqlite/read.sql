-- The lowest events among the gaps (?2, JSON pairs) and above the high-water mark (?1): at most ?3 rows and ?4 bytes
-- of payload text, the first one whatever its size. The texts of a row are not loaded if one of them is longer than ?5
-- bytes, and none when ?6. With ?7 also the notices, as JSON lists. Always at least one row: that of the anchor, with id NULL when there
-- is no event.
WITH candidate (id) AS MATERIALIZED (
    SELECT id
    FROM (
        SELECT event.id
        FROM json_each(?2) AS gap CROSS JOIN outbox_event AS event
        WHERE event.id >= gap.value ->> 0 AND event.id < gap.value ->> 1
        ORDER BY event.id
        LIMIT ?3
    )
    UNION ALL
    SELECT id
    FROM (SELECT id FROM outbox_event WHERE id > ?1 ORDER BY id LIMIT ?3)
    ORDER BY id
    LIMIT ?3
),
sized AS (
    SELECT
        id,
        octet_length(payload) + ifnull(octet_length(older_payloads), 0) + ifnull(octet_length(actor), 0) AS bytes,
        max(octet_length(payload), ifnull(octet_length(older_payloads), 0), ifnull(octet_length(actor), 0)) AS longest
    FROM candidate JOIN outbox_event USING (id)
),
carried AS (
    SELECT id, longest, ?6 OR longest > ?5 AS left_out,
           sum(iif(?6 OR longest > ?5, 0, bytes)) OVER (ORDER BY id) AS running,
           row_number() OVER (ORDER BY id) AS nth
    FROM sized
)
SELECT
    (SELECT event_id FROM outbox_event WHERE id = ?1) AS anchor,
    (SELECT count(*) FROM candidate) AS candidates,
    ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'outbox_event'), 0) AS last_id,
    iif(?7, (
        SELECT json_group_array(name ORDER BY name)
        FROM (SELECT DISTINCT name FROM outbox_consumer)
        WHERE EXISTS (
                SELECT 1 FROM outbox_dead_letter AS letter INDEXED BY outbox_dead_letter_replay_idx
                WHERE letter.consumer = name AND letter.state = 'replay'
            )
            OR EXISTS (
                SELECT 1
                FROM outbox_dead_letter AS letter INDEXED BY outbox_dead_letter_discarded_idx
                CROSS JOIN outbox_stall AS stall INDEXED BY outbox_stall_blocked_idx
                    ON stall.consumer = letter.consumer AND stall.head_id = letter.event_id AND stall.blocked
                WHERE letter.consumer = name AND letter.state = 'discarded' AND NOT letter.recorded
            )
    ), '[]') AS replays,
    iif(?7, (
        SELECT json_group_array(DISTINCT name ORDER BY name)
        FROM outbox_consumer
        WHERE (owner IS NULL OR lease_until < CAST(unixepoch('subsec') * 1000000 AS INTEGER))
          AND (wanted_until IS NULL OR wanted_until <= CAST(unixepoch('subsec') * 1000000 AS INTEGER))
    ), '[]') AS free_slots,
    iif(?7, (
        SELECT json_group_array(DISTINCT name ORDER BY name)
        FROM outbox_consumer
        WHERE paused_by <> 'breaker' AND paused_until > CAST(unixepoch('subsec') * 1000000 AS INTEGER)
    ), '[]') AS held,
    event.*
FROM (SELECT 1)
LEFT JOIN (
    SELECT
        id, event_id, tenant_id, event_type, schema_version, aggregate_type, aggregate_id, audit_log_id,
        correlation_id, causation_id, iif(left_out, NULL, actor) AS actor, traceparent, tracestate,
        iif(left_out, NULL, payload) AS payload,
        iif(left_out, NULL, older_payloads) AS older_payloads,
        iif(left_out, longest, NULL) AS left_out_bytes,
        occurred_at, created_at,
        available_at > created_at AS delayed,
        CAST(available_at - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS INTEGER) AS due_in
    FROM carried JOIN outbox_event USING (id)
    WHERE running <= ?4 OR nth = 1
) AS event
ORDER BY event.id

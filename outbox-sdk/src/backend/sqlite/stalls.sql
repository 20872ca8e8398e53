-- At most ?3 waiting lanes of a consumer behind the key ?2, with the aggregate of an event that waits alone: its slot is
-- that of its row.
SELECT
    lane, head_id, stall.attempts, blocked, single,
    stall.available_at - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS due_in,
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) - missing_since AS schema_missing_for,
    event.id IS NOT NULL AS has_row, event.tenant_id, event.aggregate_type, event.aggregate_id
FROM (SELECT * FROM outbox_stall WHERE consumer = ?1 AND lane > ?2 ORDER BY lane LIMIT ?3) AS stall
    LEFT JOIN outbox_event AS event ON single AND event.id = head_id
ORDER BY lane

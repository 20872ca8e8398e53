-- Every waiting lane of a consumer, with the aggregate of an event that waits alone: its slot is that of its row.
SELECT
    lane, head_id, stall.attempts, blocked, single,
    stall.available_at - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS due_in,
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) - missing_since AS schema_missing_for,
    event.id IS NOT NULL AS has_row, event.tenant_id, event.aggregate_type, event.aggregate_id
FROM outbox_stall AS stall
    LEFT JOIN outbox_event AS event ON single AND event.id = head_id
WHERE consumer = ?1
ORDER BY lane

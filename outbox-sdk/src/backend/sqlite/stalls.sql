SELECT
    lane, head_id, attempts, blocked, single,
    available_at - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS due_in,
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) - missing_since AS schema_missing_for
FROM outbox_stall
WHERE consumer = ?1
ORDER BY lane

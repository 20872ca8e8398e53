-- Where retention goes on, and for how long nobody else finds it due.
UPDATE outbox_duty
SET position = ?1, due_at = max(due_at, CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ?2)
WHERE name = 'retention'

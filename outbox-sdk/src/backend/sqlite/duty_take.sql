UPDATE outbox_duty
SET due_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ?2
WHERE name = ?1 AND (NOT ?3 OR due_at <= CAST(unixepoch('subsec') * 1000000 AS INTEGER))
RETURNING position

-- A duty that is due, or any when not ?2.
SELECT done, position
FROM outbox_duty
WHERE name = ?1 AND (NOT ?2 OR due_at <= CAST(unixepoch('subsec') * 1000000 AS INTEGER))

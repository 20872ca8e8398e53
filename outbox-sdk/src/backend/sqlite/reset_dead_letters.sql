-- SQLite knows no users, so that nobody is named.
UPDATE outbox_dead_letter
SET state = 'reset', decided_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER), decided_by = NULL, recorded = FALSE
WHERE consumer = ?1 AND event_id >= ?2 AND state <> 'reset'

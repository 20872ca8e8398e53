-- The recorder's duty after a batch.
UPDATE outbox_duty
SET done = ?1,
    position = ?2,
    due_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ?3,
    succeeded_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER),
    failures = 0,
    last_error = NULL
WHERE name = 'recorder'

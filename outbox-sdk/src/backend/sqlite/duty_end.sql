-- ?3 is why it failed, if it did.
UPDATE outbox_duty
SET due_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ?2,
    succeeded_at = iif(?3 IS NULL, CAST(unixepoch('subsec') * 1000000 AS INTEGER), succeeded_at),
    failures = iif(?3 IS NULL, 0, failures + 1),
    last_error = ?3
WHERE name = ?1
RETURNING failures

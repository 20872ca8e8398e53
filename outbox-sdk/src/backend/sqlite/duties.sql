SELECT
    name, done, failures, last_error,
    due_at - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS due_in,
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) - succeeded_at AS succeeded_ago
FROM outbox_duty

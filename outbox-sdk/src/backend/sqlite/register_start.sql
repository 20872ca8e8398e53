-- The first id that was written at or after ?1, else (or without a time) the next id. Under the write lock every id below is decided, so
-- all of them may count as settled.
SELECT ifnull(
    (SELECT id FROM outbox_event WHERE ?1 IS NOT NULL AND created_at >= ?1 ORDER BY id LIMIT 1),
    1 + ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'outbox_event'), 0)
)

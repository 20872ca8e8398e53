-- The first id that was written at or after ?1, else the next id. Under the write lock every id below is decided, so
-- all of them may count as settled.
SELECT ifnull(
    (SELECT id FROM outbox_event WHERE created_at >= ?1 ORDER BY id LIMIT 1),
    1 + ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'outbox_event'), 0)
)

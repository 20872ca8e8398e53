SELECT lane, available_at - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS due_in
FROM outbox_stall
WHERE consumer = ?1 AND lane IN (SELECT value FROM json_each(?2))
ORDER BY available_at, lane

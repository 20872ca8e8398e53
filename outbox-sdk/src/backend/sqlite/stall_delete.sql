DELETE FROM outbox_stall WHERE consumer = ?1 AND lane IN (SELECT value FROM json_each(?2))

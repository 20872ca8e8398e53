DELETE FROM outbox_stall WHERE consumer = ?1

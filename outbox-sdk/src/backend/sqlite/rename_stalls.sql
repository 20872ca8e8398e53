UPDATE outbox_stall SET consumer = ?2 WHERE consumer = ?1

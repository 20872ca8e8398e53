UPDATE outbox_dead_letter SET consumer = ?2 WHERE consumer = ?1

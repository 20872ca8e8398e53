DELETE FROM outbox_consumer WHERE name = ?1 AND slot >= ?2

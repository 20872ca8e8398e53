DELETE FROM outbox_consumer WHERE name = ?1

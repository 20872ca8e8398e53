UPDATE outbox_consumer SET config = ?2 WHERE name = ?1

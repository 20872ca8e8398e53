UPDATE outbox_consumer SET config = ?2, required_for_retention = ?3 WHERE name = ?1

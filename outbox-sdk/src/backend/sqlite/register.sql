INSERT INTO outbox_consumer (name, epoch, settled, config) VALUES (?1, ?2, ?3, ?4)

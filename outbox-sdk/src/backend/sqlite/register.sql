-- One of the ?3 slots of a new consumer.
INSERT INTO outbox_consumer (name, slot, slots, epoch, settled, skipped, config, required_for_retention)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7)

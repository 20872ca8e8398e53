SELECT EXISTS (SELECT 1 FROM outbox_consumer)

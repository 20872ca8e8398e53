SELECT count(*) FROM outbox_event

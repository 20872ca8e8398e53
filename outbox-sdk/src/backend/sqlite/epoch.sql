UPDATE outbox_epoch SET value = value + 1 RETURNING value

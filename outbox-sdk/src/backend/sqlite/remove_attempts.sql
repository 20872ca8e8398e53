DELETE FROM outbox_delivery_attempt WHERE consumer = ?1

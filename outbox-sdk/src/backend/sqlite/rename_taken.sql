SELECT EXISTS (SELECT 1 FROM outbox_consumer WHERE name = ?1)
    OR EXISTS (SELECT 1 FROM outbox_stall WHERE consumer = ?1)
    OR EXISTS (SELECT 1 FROM outbox_dead_letter WHERE consumer = ?1)

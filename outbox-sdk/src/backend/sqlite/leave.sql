DELETE FROM outbox_relay WHERE name = ?1

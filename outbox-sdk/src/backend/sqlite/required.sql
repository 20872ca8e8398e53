-- Whether every consumer in ?1 (JSON, names) is registered.
SELECT NOT EXISTS (SELECT value FROM json_each(?1) EXCEPT SELECT name FROM outbox_consumer)

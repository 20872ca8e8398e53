-- A savepoint needs a transaction, and this one leaves nothing behind.
SAVEPOINT outbox_probe;
RELEASE SAVEPOINT outbox_probe;

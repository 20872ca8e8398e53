-- Whether the row was written by the transaction that asks, which is gone if a handler has ended it. Fails in a
-- transaction that has failed; nothing else does before its COMMIT, which would answer ROLLBACK.
SELECT 1
FROM {schema}.processed_event
WHERE consumer = $1 AND event_id = $2 AND xmin = pg_current_xact_id()::xid

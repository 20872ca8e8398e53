-- Who may still commit an id that is not visible: the transactions that hold the lock which an INSERT takes before it
-- draws one, on the event table or, if that is partitioned, on any part of it. Always a statement of its own, begun
-- before the read that it judges.
SELECT
    NOT pg_is_in_recovery() AS on_primary,
    coalesce(array_agg(DISTINCT virtualtransaction), '{}') AS transactions,
    coalesce(bool_or(pid IS NULL), false) AS prepared
FROM pg_locks
WHERE locktype = 'relation'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND mode = 'RowExclusiveLock'
    AND granted
    AND relation IN (
        SELECT {event}::regclass::oid
        UNION ALL
        SELECT relid FROM pg_partition_tree({event}::regclass)
    )

-- Who holds the lock that an INSERT takes before it draws an id: those of holders.sql, with what tells an operator who
-- they are. No text of a statement: it may hold a payload.
SELECT DISTINCT
    held.pid,
    coalesce(nullif(activity.application_name, ''), activity.usename::text, prepared.gid, '') AS name,
    CASE WHEN held.pid IS NULL THEN 'prepared' ELSE coalesce(activity.state, 'unknown') END AS state,
    coalesce(
        extract(epoch FROM clock_timestamp() - coalesce(activity.xact_start, prepared.prepared)) * 1000000, 0
    )::bigint AS open_for
FROM pg_locks AS held
    LEFT JOIN pg_stat_activity AS activity ON activity.pid = held.pid
    LEFT JOIN pg_prepared_xacts AS prepared
        ON held.pid IS NULL AND held.virtualtransaction = '-1/' || prepared.transaction::text
WHERE held.locktype = 'relation'
    AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND held.mode = 'RowExclusiveLock'
    AND held.granted
    AND held.relation IN (
        SELECT {event}::regclass::oid
        UNION ALL
        SELECT relid FROM pg_partition_tree({event}::regclass)
    )
ORDER BY open_for DESC

-- holders: who has no transaction id is not taken for a writer; a writer gets its own with its row, after its event's id.
-- instead of
    AND granted
-- this
    AND granted
    AND EXISTS (
        SELECT FROM pg_locks AS known WHERE known.locktype = 'transactionid' AND known.pid = pg_locks.pid
    )

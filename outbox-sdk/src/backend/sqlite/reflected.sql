-- The status of the events in ?1 (JSON, ids) reflects their dead letters now. Not that of a blocked lane's head: see
-- discarded_heads.sql.
UPDATE outbox_dead_letter
SET recorded = TRUE
WHERE NOT recorded AND event_id IN (SELECT value FROM json_each(?1))
  AND NOT EXISTS (
      SELECT 1
      FROM outbox_stall AS stall
      WHERE stall.consumer = outbox_dead_letter.consumer AND stall.head_id = outbox_dead_letter.event_id
        AND stall.blocked
  )

-- The fence: nothing is written unless the epoch and rev are the owner's and its anchor (?10, ?11) is still there.
-- `settled` in the condition is the stored set. A slot that is given back stays wanted. While an operator's pause runs,
-- the owner's own changes nothing of it.
UPDATE outbox_consumer
SET settled = ?5,
    void = ?6,
    anchor_id = ifnull(?10, anchor_id),
    anchor_event_id = ifnull(?11, anchor_event_id),
    rev = rev + 1,
    owner = iif(?8, NULL, owner),
    lease_until = iif(?8, NULL, CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ?7),
    paused_until = CASE
        WHEN ?9 IS NULL OR (paused_by <> 'breaker' AND paused_until > CAST(unixepoch('subsec') * 1000000 AS INTEGER)) THEN paused_until
        WHEN ?9 > 0 THEN CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ?9
    END,
    paused_by = CASE
        WHEN ?9 IS NULL OR (paused_by <> 'breaker' AND paused_until > CAST(unixepoch('subsec') * 1000000 AS INTEGER)) THEN paused_by
        WHEN ?9 > 0 THEN 'breaker'
    END,
    pause_reason = CASE
        WHEN ?9 IS NULL OR (paused_by <> 'breaker' AND paused_until > CAST(unixepoch('subsec') * 1000000 AS INTEGER)) THEN pause_reason
        ELSE ?13
    END,
    attempts = iif(?9 IS NULL, attempts, ?12)
WHERE name = ?1 AND slot = ?2 AND epoch = ?3 AND rev = ?4
  AND (
      ?10 IS NULL
      OR ifnull((SELECT event_id = ?11 FROM outbox_event WHERE id = ?10), EXISTS (
          SELECT 1 FROM json_each(outbox_consumer.settled) AS span
          WHERE ?10 >= span.value ->> 0 AND ?10 < span.value ->> 1
      ))
  )
RETURNING
    epoch, rev, ifnull(paused_by <> 'breaker', FALSE) AS held,
    ifnull(wanted_until > CAST(unixepoch('subsec') * 1000000 AS INTEGER), FALSE) AS wanted,
    paused_until - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS paused_for

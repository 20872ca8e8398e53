-- What replays came to (?2, a JSON list). Only from the state in which the owner took them up, since an operator may have
-- decided otherwise: to be replayed, or, when the attempt was counted first, dead with that many attempts.
UPDATE outbox_dead_letter AS letter
SET state = result.value ->> 'state',
    reason = ifnull(result.value ->> 'reason', letter.reason),
    attempts = ifnull(result.value ->> 'attempts', letter.attempts),
    max_attempts = ifnull(result.value ->> 'max_attempts', letter.max_attempts),
    last_error = ifnull(result.value ->> 'last_error', letter.last_error),
    failed_at = iif(
        result.value ->> 'state' = 'dead', CAST(unixepoch('subsec') * 1000000 AS INTEGER), letter.failed_at
    ),
    acknowledged_at = iif(result.value ->> 'state' = 'replayed', letter.acknowledged_at, NULL),
    recorded = FALSE
FROM json_each(?2) AS result
WHERE letter.consumer = ?1
  AND letter.event_id = result.value ->> 'event_id'
  AND CASE
      WHEN result.value ->> 'counted' IS NULL THEN letter.state = 'replay'
      ELSE letter.state = 'dead' AND letter.attempts = result.value ->> 'counted'
  END

-- ?2 is a JSON array of dead letters. One that was dead before is dead again: nobody has acknowledged this failure.
INSERT INTO outbox_dead_letter (consumer, event_id, reason, attempts, max_attempts, last_error)
SELECT
    ?1, value ->> 'event_id', value ->> 'reason', value ->> 'attempts', value ->> 'max_attempts', value ->> 'last_error'
FROM json_each(?2)
WHERE TRUE
ON CONFLICT (consumer, event_id) DO UPDATE
SET reason = excluded.reason,
    attempts = excluded.attempts,
    max_attempts = excluded.max_attempts,
    last_error = excluded.last_error,
    failed_at = excluded.failed_at,
    acknowledged_at = NULL,
    state = 'dead',
    decided_at = NULL,
    decided_by = NULL,
    recorded = FALSE

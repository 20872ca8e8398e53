-- An event that is dead again (after a replay or a reset) is dead anew: unacknowledged, with the newest failure.
INSERT INTO {schema}.dead_letter (consumer, event_id, reason, attempts, max_attempts, last_error, failed_at)
SELECT $1, event_id, reason, attempts, max_attempts, last_error, clock_timestamp()
FROM unnest($2::bigint[], $3::text[], $4::int[], $5::int[], $6::text[])
    AS given (event_id, reason, attempts, max_attempts, last_error)
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
    recorded = false

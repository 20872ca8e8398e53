-- What replays came to: the events ($2), their states ($3) and what else changes. Only from the state in which the owner
-- took them up, since an operator may have decided otherwise: to be replayed, or, when the attempt was counted first, dead
-- with that many attempts ($4).
UPDATE {schema}.dead_letter AS letter
SET state = result.state,
    reason = coalesce(result.reason, letter.reason),
    attempts = coalesce(result.attempts, letter.attempts),
    max_attempts = coalesce(result.max_attempts, letter.max_attempts),
    last_error = coalesce(result.last_error, letter.last_error),
    failed_at = CASE WHEN result.state = 'dead' THEN clock_timestamp() ELSE letter.failed_at END,
    acknowledged_at = CASE WHEN result.state = 'replayed' THEN letter.acknowledged_at END,
    recorded = false
FROM unnest($2::bigint[], $3::text[], $4::int[], $5::text[], $6::int[], $7::int[], $8::text[])
    AS result (event_id, state, counted, reason, attempts, max_attempts, last_error)
WHERE letter.consumer = $1
    AND letter.event_id = result.event_id
    AND CASE
        WHEN result.counted IS NULL THEN letter.state = 'replay'
        ELSE letter.state = 'dead' AND letter.attempts = result.counted
    END

-- The fence: the first statement of every transaction that writes progress. With the row's place (its ctid) it finds
-- the row at once although a held snapshot keeps its dead versions; without, it finds a row that somebody else has
-- moved (an operator's pause). Identity is asked in both: another row may lie at that place by now. The anchor
-- ($5, $6) is the row at the owner's high-water mark: a server that lost commits
-- lacks it. Retention may delete it once it is settled, but another event never takes its id. A slot that is given back
-- stays wanted. While a pause runs that only an operator ends, the owner's own changes nothing of it
-- (statement_timestamp(), since it must be the same in each place).
UPDATE {schema}.consumer
SET settled = $7::int8multirange,
    void = $8::int8multirange,
    anchor_id = coalesce($5::bigint, anchor_id),
    anchor_event_id = coalesce($6::uuid, anchor_event_id),
    rev = rev + 1,
    lease_until = CASE WHEN NOT $13 THEN clock_timestamp() + $9::bigint * interval '1 microsecond' END,
    owner = CASE WHEN NOT $13 THEN owner END,
    paused_until = CASE
        WHEN $10::bigint IS NULL OR (paused_by <> 'breaker' AND paused_until > statement_timestamp()) THEN paused_until
        WHEN $10::bigint > 0 THEN clock_timestamp() + $10::bigint * interval '1 microsecond'
    END,
    paused_by = CASE
        WHEN $10::bigint IS NULL OR (paused_by <> 'breaker' AND paused_until > statement_timestamp()) THEN paused_by
        WHEN $10::bigint > 0 THEN 'breaker'
    END,
    pause_reason = CASE
        WHEN $10::bigint IS NULL OR (paused_by <> 'breaker' AND paused_until > statement_timestamp()) THEN pause_reason
        ELSE $12
    END,
    attempts = CASE WHEN $10::bigint IS NULL THEN attempts ELSE $11 END
WHERE {place} name = $1
    AND slot = $2
    AND epoch = $3
    AND rev = $4
    AND (
        $5::bigint IS NULL
        OR coalesce((SELECT event_id = $6 FROM {schema}.event WHERE id = $5::bigint), settled @> $5::bigint)
    )
RETURNING
    ctid::text AS ctid, epoch, rev, paused_until, coalesce(paused_by <> 'breaker', false) AS held,
    coalesce(wanted_until > clock_timestamp(), false) AS wanted, clock_timestamp() AS read_at

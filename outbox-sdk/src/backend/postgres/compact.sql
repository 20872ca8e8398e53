-- One batch of retention, under the admin lock: the whole predicate again, in the statement that deletes. The dead
-- letters are locked, as they are now: an operator who asks for a replay comes before and is heard, or after and finds
-- nothing.
WITH {walked},
letter AS MATERIALIZED (
    SELECT dead_letter.consumer, dead_letter.event_id, dead_letter.state, dead_letter.acknowledged_at
    FROM walked JOIN {schema}.dead_letter ON dead_letter.event_id = walked.id
    WHERE walked.old
    FOR UPDATE OF dead_letter
),
{expired},
gone AS (
    DELETE FROM {schema}.event USING expired
    WHERE event.id = expired.id AND event.status = expired.status
    RETURNING event.id, event.event_id
),
keys_gone AS (
    DELETE FROM {schema}.idempotency USING gone WHERE idempotency.event_id = gone.event_id
),
letters_gone AS (
    DELETE FROM {schema}.dead_letter USING gone WHERE dead_letter.event_id = gone.id
),
attempts_gone AS (
    DELETE FROM {schema}.delivery_attempt USING gone WHERE delivery_attempt.event_id = gone.id
)
UPDATE {schema}.duty AS stored
SET position = CASE WHEN reach.goes_on THEN coalesce(reach.until, 0) ELSE 0 END,
    due_at = greatest(stored.due_at, clock_timestamp() + $9::bigint * interval '1 microsecond')
FROM reach, (SELECT count(*) AS deleted FROM gone) AS total
WHERE stored.name = 'retention'
RETURNING total.deleted, reach.scanned, stored.position, stored.position = 0 AS done

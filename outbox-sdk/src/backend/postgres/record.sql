-- One batch of the recorder, decided in one snapshot and under the admin lock: at most $1 ids that have rows, of those
-- that are settled by all and not done with, from the duty's position upward. A dead letter whose state has changed
-- brings its event back, although that is done with. $2: at the end, go back to the beginning.
WITH duty AS MATERIALIZED (
    SELECT done, position FROM {schema}.duty WHERE name = 'recorder'
),
known AS MATERIALIZED ({known}),
-- In rising order, as unnest gives them out.
span AS MATERIALIZED (
    SELECT unnest((known.settled * int8multirange(int8range(duty.position, NULL))) - duty.done) AS ids
    FROM duty, known
    LIMIT $1
),
picked AS MATERIALIZED (
    SELECT found.*
    FROM span, LATERAL (
        SELECT id, tenant_id, aggregate_type, aggregate_id, available_at > created_at AS delayed
        FROM {schema}.event
        WHERE id >= lower(span.ids) AND id < upper(span.ids)
        ORDER BY id
        LIMIT $1
    ) AS found
    ORDER BY id
    LIMIT $1
),
back AS MATERIALIZED (
    SELECT DISTINCT event_id AS id
    FROM {schema}.dead_letter
    WHERE NOT recorded AND event_id >= (SELECT position FROM duty)
    ORDER BY event_id
    LIMIT $1
),
-- How far this batch looks: up to where one of the lists was cut. NULL: none was, and the pass is complete.
reach AS MATERIALIZED (
    SELECT least(
        (SELECT CASE WHEN count(*) = $1 THEN max(upper(ids)) END FROM span),
        (SELECT CASE WHEN count(*) = $1 THEN max(id) + 1 END FROM picked),
        (SELECT CASE WHEN count(*) = $1 THEN max(id) + 1 END FROM back)
    ) AS until
),
seen AS MATERIALIZED (
    SELECT picked.* FROM picked, reach WHERE reach.until IS NULL OR picked.id < reach.until
    UNION ALL
    SELECT event.id, tenant_id, aggregate_type, aggregate_id, available_at > created_at
    FROM back JOIN {schema}.event AS event ON event.id = back.id, duty, known, reach
    WHERE duty.done @> back.id AND known.settled @> back.id AND (reach.until IS NULL OR back.id < reach.until)
),
decided AS MATERIALIZED (
    SELECT seen.id, coalesce(letter.status, 'dispatched') AS status, letter.attempts, letter.last_error
    FROM seen
        LEFT JOIN LATERAL (
            SELECT
                CASE WHEN state IN ('dead', 'replay') THEN 'failed' WHEN state = 'discarded' THEN 'skipped' END
                    AS status,
                attempts, last_error
            FROM {schema}.dead_letter
            WHERE event_id = seen.id
                AND state <> 'reset'
                AND EXISTS (SELECT FROM {schema}.consumer WHERE name = dead_letter.consumer)
            ORDER BY state IN ('dead', 'replay') DESC, state = 'discarded' DESC, failed_at DESC, consumer
            LIMIT 1
        ) AS letter ON true
    WHERE NOT ({covered})
),
-- Letters that the events' new status reflects, and letters about events that are deleted, as this snapshot shows them.
reflected AS MATERIALIZED (
    SELECT consumer, event_id, state, failed_at
    FROM {schema}.dead_letter
    WHERE NOT recorded AND event_id IN (
        SELECT id FROM decided
        UNION ALL
        SELECT back.id
        FROM back, duty
        WHERE duty.done @> back.id AND NOT EXISTS (SELECT FROM {schema}.event WHERE event.id = back.id)
    )
    -- The letter of a blocked lane's head: see blocked_head.sql.
    AND NOT EXISTS (
        SELECT FROM {schema}.stall AS stall
        WHERE stall.consumer = dead_letter.consumer AND stall.head_id = dead_letter.event_id AND stall.blocked
    )
),
-- Whoever is asked again, after a reset or for another consumer's letter, may have the right status already.
written AS (
    UPDATE {schema}.event AS event
    SET status = decided.status::{schema}.event_status,
        attempts = coalesce(decided.attempts, event.attempts),
        last_error = CASE WHEN decided.status <> 'dispatched' THEN decided.last_error END,
        dispatched_at = CASE WHEN decided.status = 'dispatched' THEN clock_timestamp() END
    FROM decided
    WHERE event.id = decided.id
        AND CASE
            WHEN decided.status = 'dispatched' THEN event.status <> 'dispatched'
            ELSE (event.status::text, event.attempts, event.last_error)
                IS DISTINCT FROM (decided.status, decided.attempts, decided.last_error)
        END
    RETURNING event.status
),
-- One that changes at this moment is asked again here, and stays for the next batch.
marked AS (
    UPDATE {schema}.dead_letter AS letter
    SET recorded = true
    FROM reflected
    WHERE letter.consumer = reflected.consumer
        AND letter.event_id = reflected.event_id
        AND letter.state = reflected.state
        AND letter.failed_at = reflected.failed_at
        AND NOT letter.recorded
    RETURNING letter.event_id
),
looked_at AS (
    SELECT
        coalesce(
            (SELECT range_agg(ids) FROM span) * int8multirange(int8range(NULL, reach.until)), '{}'::int8multirange
        ) AS ids,
        coalesce(
            (SELECT range_agg(int8range(id, id, '[]')) FROM seen WHERE id NOT IN (SELECT id FROM decided)),
            '{}'::int8multirange
        ) AS held
    FROM reach
),
total AS (
    SELECT
        count(*) FILTER (WHERE status = 'dispatched') AS dispatched,
        count(*) FILTER (WHERE status = 'failed') AS failed,
        count(*) FILTER (WHERE status = 'skipped') AS skipped,
        (SELECT count(*) FROM seen) - (SELECT count(*) FROM decided) AS held,
        -- The rows are written before the clock is read for the rest that follows.
        count(*) + (SELECT count(*) FROM marked) AS writes
    FROM written
)
UPDATE {schema}.duty AS stored
-- What is not changed is not written again, however large it is.
SET done = CASE
        WHEN isempty(looked_at.ids - looked_at.held) THEN stored.done
        ELSE stored.done + (looked_at.ids - looked_at.held)
    END,
    position = coalesce(reach.until, CASE WHEN $2 THEN 0 ELSE greatest(stored.position, upper(known.settled)) END),
    due_at = CASE
        WHEN total.writes >= 0
            THEN clock_timestamp() + least(20 * (clock_timestamp() - now()), interval '1 second')
    END,
    succeeded_at = clock_timestamp(),
    failures = 0,
    last_error = NULL
FROM total, looked_at, reach, known
WHERE stored.name = 'recorder'
RETURNING total.dispatched, total.failed, total.skipped, total.held, reach.until IS NULL AS complete

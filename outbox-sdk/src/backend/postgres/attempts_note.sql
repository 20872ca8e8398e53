-- Notes attempts in the order given, and forgets the oldest of each event and consumer beyond $10. An event that is gone
-- gets no history.
WITH given AS (
    SELECT
        given.*,
        row_number() OVER (PARTITION BY given.event_id, given.consumer ORDER BY given.place DESC) AS newest
    FROM
        unnest(
            $1::bigint[], $2::text[], $3::int[], $4::boolean[], $5::text[], $6::int[], $7::text[], $8::bigint[], $9::bigint[]
        ) WITH ORDINALITY
            AS given (event_id, consumer, attempt, replay, outcome, status, error, ended_us_ago, duration_us, place)
),
fresh AS (
    SELECT given.event_id, given.consumer, count(*) AS attempts FROM given GROUP BY given.event_id, given.consumer
),
stored AS (
    SELECT
        old.id, old.event_id, old.consumer,
        fresh.attempts + row_number() OVER (PARTITION BY old.event_id, old.consumer ORDER BY old.id DESC) AS newest
    FROM fresh JOIN {schema}.delivery_attempt AS old USING (event_id, consumer)
),
forgotten AS (
    DELETE FROM {schema}.delivery_attempt AS old
    USING stored
    WHERE (old.event_id, old.consumer, old.id) = (stored.event_id, stored.consumer, stored.id) AND stored.newest > $10
)
INSERT INTO {schema}.delivery_attempt
    (event_id, consumer, attempt, replay, outcome, status, error, ended_at, duration_us)
SELECT
    given.event_id, given.consumer, given.attempt, given.replay, given.outcome, given.status, given.error,
    clock_timestamp() - given.ended_us_ago * interval '1 microsecond', given.duration_us
FROM given
WHERE given.newest <= $10 AND EXISTS (SELECT FROM {schema}.event WHERE event.id = given.event_id)
ORDER BY given.place

-- What each slot has before it: rows whose ids are not in its set, counted up to $1; the lowest of them, and the lowest
-- head of a lane that waits, unless it is a delayed event before its time. Ids are close enough to the order of time
-- for the age of the oldest.
SELECT
    consumer.name, consumer.slot, clock_timestamp() AS read_at,
    (
        SELECT count(*) FROM (
            SELECT
            FROM unnest(int8multirange(int8range(1, NULL)) - consumer.settled) AS gap, {schema}.event
            WHERE event.id >= lower(gap) AND event.id < coalesce(upper(gap), 9223372036854775807)
            LIMIT $1
        ) AS counted
    ) AS unsettled,
    (
        SELECT first.created_at
        FROM unnest(int8multirange(int8range(1, NULL)) - consumer.settled) AS gap, LATERAL (
            SELECT event.created_at FROM {schema}.event
            WHERE event.id >= lower(gap) AND event.id < coalesce(upper(gap), 9223372036854775807)
            ORDER BY event.id
            LIMIT 1
        ) AS first
        ORDER BY lower(gap)
        LIMIT 1
    ) AS oldest_unsettled,
    (
        SELECT event.created_at
        FROM (
            SELECT stall.head_id FROM {schema}.stall
            WHERE stall.consumer = consumer.name
                AND NOT (stall.single AND stall.attempts = 0 AND stall.available_at > clock_timestamp())
            ORDER BY stall.head_id
            LIMIT 1
        ) AS head
            JOIN {schema}.event ON event.id = head.head_id
    ) AS oldest_stalled
FROM {schema}.consumer
ORDER BY consumer.name, consumer.slot

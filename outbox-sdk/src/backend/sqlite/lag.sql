-- What each slot has before it: rows whose ids are not in its set, counted up to ?1; the lowest of them, and the lowest
-- head of a lane that waits, unless it is a delayed event before its time. Ids are close enough to the order of time
-- for the age of the oldest.
WITH gap (name, slot, from_id, until_id) AS MATERIALIZED (
    SELECT name, slot, 1, ifnull(min(span.value ->> 0), 9223372036854775807)
    FROM outbox_consumer LEFT JOIN json_each(settled) AS span
    GROUP BY name, slot
    UNION ALL
    SELECT name, slot, span.value ->> 1,
           lead(span.value ->> 0, 1, 9223372036854775807) OVER (PARTITION BY name, slot ORDER BY span.value ->> 0)
    FROM outbox_consumer, json_each(settled) AS span
)
SELECT
    consumer.name, consumer.slot,
    (
        SELECT count(*) FROM (
            SELECT 1
            FROM gap CROSS JOIN outbox_event AS event
            WHERE gap.name = consumer.name AND gap.slot = consumer.slot
              AND event.id >= gap.from_id AND event.id < gap.until_id
            LIMIT ?1
        )
    ) AS unsettled,
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) - (
        SELECT event.created_at
        FROM outbox_event AS event
        WHERE event.id = (
            SELECT min((
                SELECT min(first.id) FROM outbox_event AS first WHERE first.id >= gap.from_id AND first.id < gap.until_id
            ))
            FROM gap
            WHERE gap.name = consumer.name AND gap.slot = consumer.slot
        )
    ) AS unsettled_for,
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) - (
        SELECT event.created_at
        FROM outbox_event AS event
        WHERE event.id = (
            SELECT min(stall.head_id)
            FROM outbox_stall AS stall
            WHERE stall.consumer = consumer.name
              AND NOT (
                  stall.single AND stall.attempts = 0
                  AND stall.available_at > CAST(unixepoch('subsec') * 1000000 AS INTEGER)
              )
        )
    ) AS stalled_for
FROM outbox_consumer AS consumer
ORDER BY consumer.name, consumer.slot

-- Those of the ids in ?1 (JSON) that are done with: nobody needs them, and their time is over. ?2 is JSON, a list of
-- rules in the order in which they are asked; ?3 tells whether the recorder runs. A letter that was replayed or reset
-- says nothing about its event any more; every other one must have been acknowledged, for as long as the event is kept,
-- and no consumer may be about to get it again.
WITH expired AS MATERIALIZED (
    SELECT seen.id, seen.event_type
    FROM (
        SELECT
            event.*,
            CAST(unixepoch('subsec') * 1000000 AS INTEGER) - (
                SELECT rule.value ->> 'length'
                FROM json_each(?2) AS rule
                WHERE iif(
                    rule.value ->> 'exact',
                    event.event_type = rule.value ->> 'stem',
                    substr(event.event_type, 1, length(rule.value ->> 'stem')) = rule.value ->> 'stem'
                        AND event.event_type <> rule.value ->> 'stem'
                )
                ORDER BY rule.key
                LIMIT 1
            ) AS over_since
        FROM json_each(?1) AS given CROSS JOIN outbox_event AS event ON event.id = given.value
    ) AS seen
    WHERE CASE
            WHEN NOT ?3 THEN seen.created_at <= seen.over_since
            WHEN seen.status = 'dispatched' THEN seen.dispatched_at <= seen.over_since
            WHEN seen.status = 'pending' THEN FALSE
            ELSE EXISTS (
                SELECT 1 FROM outbox_dead_letter AS letter
                WHERE letter.event_id = seen.id AND letter.state IN ('dead', 'replay', 'discarded')
            )
        END
      AND NOT EXISTS (
          SELECT 1 FROM outbox_dead_letter AS letter
          WHERE letter.event_id = seen.id
            AND letter.state IN ('dead', 'replay', 'discarded')
            AND (
                ifnull(letter.acknowledged_at > seen.over_since, TRUE)
                OR letter.state = 'replay' AND letter.consumer IN (SELECT name FROM outbox_consumer)
            )
      )
      AND NOT {covered}
)

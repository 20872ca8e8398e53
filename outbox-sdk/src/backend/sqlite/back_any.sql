-- Whether a dead letter about one of the ids in ?1 (JSON, pairs of [from, until)) has changed.
SELECT EXISTS (
    SELECT 1
    FROM json_each(?1) AS span CROSS JOIN outbox_dead_letter AS letter
    WHERE NOT letter.recorded AND letter.event_id >= span.value ->> 0 AND letter.event_id < span.value ->> 1
)

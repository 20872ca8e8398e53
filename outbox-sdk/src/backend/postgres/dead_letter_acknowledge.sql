-- Lets retention delete the events. Who discarded a letter stays on record.
WITH chosen AS MATERIALIZED (
    SELECT letter.consumer, letter.event_id
    FROM unnest($1::bigint[], $2::text[]) AS asked (event_id, consumer)
        JOIN {schema}.dead_letter AS letter USING (event_id, consumer)
    WHERE letter.state IN ('dead', 'discarded') AND letter.acknowledged_at IS NULL
    ORDER BY letter.event_id, letter.consumer
    FOR UPDATE OF letter
)
UPDATE {schema}.dead_letter AS letter
SET acknowledged_at = clock_timestamp(),
    decided_at = coalesce(letter.decided_at, clock_timestamp()),
    decided_by = coalesce(letter.decided_by, $3, current_user::text)
FROM chosen
WHERE letter.consumer = chosen.consumer
    AND letter.event_id = chosen.event_id
    AND letter.state IN ('dead', 'discarded')
    AND letter.acknowledged_at IS NULL
RETURNING letter.event_id AS id, letter.consumer

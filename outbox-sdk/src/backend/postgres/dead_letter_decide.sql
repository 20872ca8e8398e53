-- `dead` to the state $3. Rows are locked in one order, so that two operators never wait for each other; whoever comes
-- second finds them decided. There is nothing to replay when the event is gone.
WITH chosen AS MATERIALIZED (
    SELECT letter.consumer, letter.event_id
    FROM unnest($1::bigint[], $2::text[]) AS asked (event_id, consumer)
        JOIN {schema}.dead_letter AS letter USING (event_id, consumer)
    WHERE letter.state = 'dead'
    ORDER BY letter.event_id, letter.consumer
    FOR UPDATE OF letter
)
UPDATE {schema}.dead_letter AS letter
SET state = $3,
    acknowledged_at = CASE WHEN $3 <> 'replay' THEN letter.acknowledged_at END,
    decided_at = clock_timestamp(),
    decided_by = coalesce($4, current_user::text),
    recorded = false
FROM chosen
WHERE letter.consumer = chosen.consumer
    AND letter.event_id = chosen.event_id
    AND letter.state = 'dead'
    AND ($3 <> 'replay' OR EXISTS (SELECT FROM {schema}.event WHERE event.id = letter.event_id))
RETURNING letter.event_id AS id, letter.consumer

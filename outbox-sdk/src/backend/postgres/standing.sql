-- Where the id $1 stands with every slot, in one snapshot; $2 is the key of its aggregate's lane, $3 that of the event
-- alone. One row without a consumer when there is none.
SELECT
    (SELECT event.status::text FROM {schema}.event WHERE event.id = $1) AS event_status,
    (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {schema}.event_id_seq) AS last_id,
    {slot_columns},
    consumer.void @> $1::bigint AS void,
    consumer.skipped @> $1::bigint AS skipped,
    stall.head_id AS stall_head_id, stall.attempts AS stall_attempts, stall.available_at AS stall_available_at,
    stall.blocked AS stall_blocked, stall.missing_since AS stall_missing_since, stall.last_error AS stall_last_error,
    single.head_id AS single_head_id, single.attempts AS single_attempts, single.available_at AS single_available_at,
    single.blocked AS single_blocked, single.missing_since AS single_missing_since, single.last_error AS single_last_error,
    head.reason AS head_reason, head.state AS head_state, head.attempts AS head_attempts,
    head.max_attempts AS head_max_attempts, head.last_error AS head_last_error, head.failed_at AS head_failed_at,
    head.decided_by AS head_decided_by,
    letter.reason AS letter_reason, letter.state AS letter_state, letter.attempts AS letter_attempts,
    letter.max_attempts AS letter_max_attempts, letter.last_error AS letter_last_error,
    letter.failed_at AS letter_failed_at, letter.decided_by AS letter_decided_by
FROM (SELECT) AS once
    LEFT JOIN {schema}.consumer ON true
    LEFT JOIN {schema}.stall
        ON stall.consumer = consumer.name AND stall.lane = $2 AND NOT stall.single AND stall.head_id <= $1
    LEFT JOIN {schema}.stall AS single ON single.consumer = consumer.name AND single.lane = $3 AND single.head_id = $1
    LEFT JOIN {schema}.dead_letter AS head ON head.consumer = consumer.name AND head.event_id = stall.head_id
    LEFT JOIN {schema}.dead_letter AS letter ON letter.consumer = consumer.name AND letter.event_id = $1
WINDOW slots AS (PARTITION BY consumer.name)
ORDER BY consumer.name, consumer.slot

-- Where the id ?1 stands with every slot, in one snapshot; ?2 is the key of its aggregate's lane, ?3 that of the event
-- alone. One row without a consumer when there is none.
SELECT
    (SELECT event.status FROM outbox_event AS event WHERE event.id = ?1) AS event_status,
    ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'outbox_event'), 0) AS last_id,
    {slot_columns},
    EXISTS (SELECT 1 FROM json_each(consumer.void) AS span WHERE ?1 >= span.value ->> 0 AND ?1 < span.value ->> 1)
        AS void,
    EXISTS (SELECT 1 FROM json_each(consumer.skipped) AS span WHERE ?1 >= span.value ->> 0 AND ?1 < span.value ->> 1)
        AS skipped,
    stall.head_id AS stall_head_id, stall.attempts AS stall_attempts,
    stall.available_at - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS stall_due_in,
    stall.blocked AS stall_blocked,
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) - stall.missing_since AS stall_missing_for,
    stall.last_error AS stall_last_error,
    single.head_id AS single_head_id, single.attempts AS single_attempts,
    single.available_at - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS single_due_in,
    single.blocked AS single_blocked,
    CAST(unixepoch('subsec') * 1000000 AS INTEGER) - single.missing_since AS single_missing_for,
    single.last_error AS single_last_error,
    head.reason AS head_reason, head.state AS head_state, head.attempts AS head_attempts,
    head.max_attempts AS head_max_attempts, head.last_error AS head_last_error, head.failed_at AS head_failed_at,
    head.decided_by AS head_decided_by,
    letter.reason AS letter_reason, letter.state AS letter_state, letter.attempts AS letter_attempts,
    letter.max_attempts AS letter_max_attempts, letter.last_error AS letter_last_error,
    letter.failed_at AS letter_failed_at, letter.decided_by AS letter_decided_by
FROM (SELECT 1)
LEFT JOIN outbox_consumer AS consumer
LEFT JOIN outbox_stall AS stall
    ON stall.consumer = consumer.name AND stall.lane = ?2 AND NOT stall.single AND stall.head_id <= ?1
LEFT JOIN outbox_stall AS single ON single.consumer = consumer.name AND single.lane = ?3 AND single.head_id = ?1
LEFT JOIN outbox_dead_letter AS head ON head.consumer = consumer.name AND head.event_id = stall.head_id
LEFT JOIN outbox_dead_letter AS letter ON letter.consumer = consumer.name AND letter.event_id = ?1
WINDOW slots AS (PARTITION BY consumer.name)
ORDER BY consumer.name, consumer.slot

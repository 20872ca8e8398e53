-- Newest failure first, from behind the one at (?13, ?14, ?15): along outbox_dead_letter_failed_idx, so a page costs the
-- same however many letters there are; those that are named by themselves.
SELECT
    letter.consumer, letter.event_id AS id, letter.reason, letter.attempts, letter.max_attempts, letter.last_error,
    letter.failed_at, letter.acknowledged_at, letter.state, letter.decided_at, letter.decided_by,
    event.event_id, event.event_type, event.schema_version, event.tenant_id, event.aggregate_type, event.aggregate_id,
    event.created_at
FROM {letters}
LEFT JOIN outbox_event AS event ON event.id = letter.event_id
WHERE (letter.failed_at, letter.event_id, letter.consumer) < (?13, ?14, ?15)
  AND {letter_filter}
ORDER BY letter.failed_at DESC, letter.event_id DESC, letter.consumer DESC
LIMIT ?16

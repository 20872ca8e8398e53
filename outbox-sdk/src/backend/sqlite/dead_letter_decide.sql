-- `dead` to the state ?2; ?1 is a JSON array of [id, consumer]. Whoever comes second finds them decided. There is nothing
-- to replay when the event is gone.
UPDATE outbox_dead_letter
SET state = ?2,
    acknowledged_at = iif(?2 <> 'replay', acknowledged_at, NULL),
    decided_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER),
    decided_by = ?3,
    recorded = FALSE
WHERE (event_id, consumer) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
  AND state = 'dead'
  AND (?2 <> 'replay' OR EXISTS (SELECT 1 FROM outbox_event AS event WHERE event.id = outbox_dead_letter.event_id))
RETURNING event_id AS id, consumer

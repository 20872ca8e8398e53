-- Lets retention delete the events; ?1 is a JSON array of [id, consumer]. Who discarded a letter stays on record.
UPDATE outbox_dead_letter
SET acknowledged_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER),
    decided_at = ifnull(decided_at, CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
    decided_by = ifnull(decided_by, ?2)
WHERE (event_id, consumer) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
  AND state IN ('dead', 'discarded') AND acknowledged_at IS NULL
RETURNING event_id AS id, consumer

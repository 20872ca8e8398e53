-- A row when the slot is free; `clean` when its last owner gave it back.
SELECT owner IS NULL AS clean
FROM outbox_consumer
WHERE name = ?1 AND slot = ?2
  AND (owner IS NULL OR lease_until < CAST(unixepoch('subsec') * 1000000 AS INTEGER))

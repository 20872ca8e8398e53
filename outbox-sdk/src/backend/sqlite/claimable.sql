-- What decides whether the slot can be claimed; `clean` when its last owner gave it back.
SELECT
    owner IS NULL AS clean,
    owner IS NULL OR lease_until < CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS free,
    config = ?3 AS same_config,
    slots = ?4 AS same_slots,
    ifnull(wanted_until > CAST(unixepoch('subsec') * 1000000 AS INTEGER), FALSE) AS wanted
FROM outbox_consumer
WHERE name = ?1 AND slot = ?2

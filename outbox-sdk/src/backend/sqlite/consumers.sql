SELECT
    name, slot, settled,
    iif(lease_until >= CAST(unixepoch('subsec') * 1000000 AS INTEGER), owner, NULL) AS owner,
    (SELECT count(*) FROM outbox_stall WHERE consumer = name) AS stalled_lanes,
    (SELECT count(*) FROM outbox_dead_letter WHERE consumer = name AND state = 'dead') AS dead_letters
FROM outbox_consumer
ORDER BY name, slot

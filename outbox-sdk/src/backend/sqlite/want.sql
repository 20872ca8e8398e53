-- Asks for every slot of a consumer, for ?3 microseconds from now on; zero takes back what ?2 asked for.
UPDATE outbox_consumer
SET wanted = iif(?3 > 0, ?2, NULL),
    wanted_until = iif(?3 > 0, CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ?3, NULL)
WHERE name = ?1 AND (?3 > 0 OR wanted = ?2)
RETURNING slot, owner, ifnull(lease_until - CAST(unixepoch('subsec') * 1000000 AS INTEGER), 0) AS lease_left

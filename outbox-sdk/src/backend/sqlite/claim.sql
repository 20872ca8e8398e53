UPDATE outbox_consumer
SET owner = ?3,
    lease_until = CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ?4,
    epoch = ?5,
    rev = rev + 1,
    last_error = NULL,
    wanted = NULL,
    wanted_until = NULL
WHERE name = ?1 AND slot = ?2
  AND (owner IS NULL OR lease_until < CAST(unixepoch('subsec') * 1000000 AS INTEGER))
RETURNING
    epoch, rev, settled, void, attempts, ifnull(paused_by <> 'breaker', FALSE) AS held,
    paused_until - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS paused_for

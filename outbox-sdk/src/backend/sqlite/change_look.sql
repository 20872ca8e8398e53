-- The slots of a consumer that is to be changed, under the write lock.
SELECT
    slot, slots, owner, ifnull(lease_until - CAST(unixepoch('subsec') * 1000000 AS INTEGER), 0) AS lease_left, settled, void, skipped, required_for_retention
FROM outbox_consumer
WHERE name = ?1
ORDER BY slot

-- The slots of a consumer that is to be changed. The rows are locked: an owner's write that is under way is seen, and
-- none comes until the change is committed.
SELECT
    slot, slots, owner, lease_until, settled::text AS settled, void::text AS void, required_for_retention,
    clock_timestamp() AS read_at
FROM {schema}.consumer
WHERE name = $1
ORDER BY slot
FOR UPDATE

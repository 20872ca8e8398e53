-- The rows' lanes in a range of ids, lowest first, ?3 at a time.
SELECT id, tenant_id, aggregate_type, aggregate_id
FROM outbox_event
WHERE id >= ?1 AND id < ?2
ORDER BY id
LIMIT ?3

SELECT id, event_type, schema_version, older_payloads IS NOT NULL AS has_older
FROM outbox_event
WHERE aggregate_type = ?2 AND aggregate_id = ?3 AND tenant_id IS ?1
  AND id BETWEEN ?4 AND ?5 AND available_at <= created_at
ORDER BY id
LIMIT ?6

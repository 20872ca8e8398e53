-- What lies in one aggregate's lane, without payloads.
SELECT id, event_type, schema_version, older_payloads IS NOT NULL AS has_older
FROM {schema}.event
WHERE aggregate_type = $5
    AND aggregate_id = $6
    AND tenant_id IS NOT DISTINCT FROM $4
    AND id BETWEEN $2 AND $3
    AND available_at <= created_at
ORDER BY id
LIMIT $1

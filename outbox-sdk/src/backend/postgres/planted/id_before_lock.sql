-- append: a volatile function in the row itself runs after the identity default.
-- instead of
    (SELECT coalesce($2::uuid, {schema}.current_tenant()) AS tenant_id) AS effective,
    LATERAL (
        SELECT pg_advisory_xact_lock({lane_lock}, {schema}.bucket(effective.tenant_id, $5, $6))
    ) AS locked
RETURNING id, event_id
-- this
    (SELECT coalesce($2::uuid, {schema}.current_tenant()) AS tenant_id) AS effective
RETURNING
    id, event_id, pg_advisory_xact_lock({lane_lock}, {schema}.bucket(tenant_id, aggregate_type, aggregate_id))

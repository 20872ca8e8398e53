-- Why a claim changed nothing: no row, another configuration or number of slots, somebody asks for it, or else somebody
-- else's lease.
SELECT
    config = $3::jsonb AS same_config,
    slots = $4 AS same_slots,
    coalesce(wanted_until > clock_timestamp(), false) AS wanted
FROM {schema}.consumer
WHERE name = $1 AND slot = $2

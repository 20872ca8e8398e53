-- Why a claim changed nothing: no row, another configuration, or else somebody else's lease.
SELECT config = $3::jsonb AS same_config FROM {schema}.consumer WHERE name = $1 AND slot = $2

UPDATE {schema}.consumer SET config = $2::jsonb, required_for_retention = $3 WHERE name = $1

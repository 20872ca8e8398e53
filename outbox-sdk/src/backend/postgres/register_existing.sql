UPDATE {schema}.consumer SET config = $2::jsonb WHERE name = $1

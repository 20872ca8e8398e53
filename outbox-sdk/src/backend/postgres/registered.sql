SELECT DISTINCT name FROM {schema}.consumer ORDER BY name

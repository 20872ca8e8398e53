-- Whether the schema and the table with the applied migrations are there.
SELECT to_regnamespace($1) IS NOT NULL, to_regclass($2) IS NOT NULL

-- No payload: equal notifications of a transaction become one.
SELECT pg_notify($1, '')

-- Once for a session of a relay's own: what a statement outside of a transaction needs as well; and no path on which
-- somebody's function or operator could lie in the place of one of the server's.
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET search_path = pg_catalog, pg_temp;
{limit}

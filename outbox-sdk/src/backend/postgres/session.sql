-- Once for a session of a relay's own: what a statement outside of a transaction needs as well.
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;
{limit}

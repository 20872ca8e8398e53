-- What must hold before an owner reads.
SELECT
    NOT pg_is_in_recovery() AS on_primary,
    (SELECT seqcache = 1 FROM pg_sequence WHERE seqrelid = {event_id_seq}::regclass) AS sequence_uncached,
    (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {schema}.event_id_seq) AS last_id,
    {sees_all_rows} AS sees_all_rows

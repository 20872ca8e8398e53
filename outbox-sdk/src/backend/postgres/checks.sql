-- What must hold before an owner reads. `anchored`: at the id where the owner before last was, there is the same event, or
-- none (retention).
SELECT
    NOT pg_is_in_recovery() AS on_primary,
    (SELECT seqcache = 1 FROM pg_sequence WHERE seqrelid = {event_id_seq}::regclass) AS sequence_uncached,
    (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {schema}.event_id_seq) AS last_id,
    {sees_all_rows} AS sees_all_rows,
    coalesce(
        (
            SELECT event.event_id = consumer.anchor_event_id
            FROM {schema}.consumer
                JOIN {schema}.event ON event.id = consumer.anchor_id
            WHERE consumer.name = $1 AND consumer.slot = $2
        ),
        true
    ) AS anchored

-- How the duties stand, and whether the recorder would find anything.
WITH known AS MATERIALIZED ({known})
SELECT
    duty.name, duty.due_at, duty.succeeded_at, duty.failures, duty.last_error, clock_timestamp() AS read_at,
    duty.name = 'recorder' AND (
        NOT isempty(known.settled - duty.done)
        OR EXISTS (
            SELECT FROM {schema}.dead_letter AS letter
            WHERE NOT letter.recorded AND duty.done @> letter.event_id AND known.settled @> letter.event_id
        )
    ) AS unrecorded
FROM {schema}.duty AS duty, known
ORDER BY duty.name

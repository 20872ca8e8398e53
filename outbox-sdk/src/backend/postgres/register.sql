-- A new consumer with $5 slots. What it skips is exactly what this snapshot shows ($3 and, before a time, $4): an id that is not
-- visible now, however low, stays a gap and is delivered when it appears.
INSERT INTO {schema}.consumer (name, slot, slots, settled, skipped, epoch, config, required_for_retention)
SELECT
    $1, slot, $5,
    CASE WHEN $3 THEN coalesce(skipped.ids, '{}') ELSE '{}' END,
    CASE WHEN $3 THEN coalesce(skipped.ids, '{}') ELSE '{}' END,
    nextval({epoch}::regclass), $2::jsonb, $6
FROM generate_series(0, $5 - 1) AS slot, (
    -- Runs of consecutive ids first: one range for each, whatever the number of events.
    SELECT range_agg(int8range(first_id, last_id, '[]')) AS ids
    FROM (
        SELECT min(id) AS first_id, max(id) AS last_id
        FROM (
            SELECT id, id - row_number() OVER (ORDER BY id) AS run
            FROM {schema}.event
            WHERE $3
                AND id < (
                    SELECT coalesce({first_since}, 9223372036854775807) FROM (SELECT $4::timestamptz AS at) AS since
                )
        ) AS visible
        GROUP BY run
    ) AS runs
) AS skipped

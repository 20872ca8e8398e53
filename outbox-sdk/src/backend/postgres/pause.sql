-- Until it is resumed when $2 is null.
UPDATE {schema}.consumer
SET paused_until = coalesce(clock_timestamp() + $2::bigint * interval '1 microsecond', 'infinity'),
    pause_reason = $3,
    paused_by = $4
WHERE name = $1

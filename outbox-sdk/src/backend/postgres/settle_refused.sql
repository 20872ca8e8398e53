-- The row that the fence did not match, as it is now.
SELECT
    ctid::text AS ctid, epoch, rev,
    $3::bigint IS NULL
        OR coalesce((SELECT event_id = $4 FROM {schema}.event WHERE id = $3::bigint), settled @> $3::bigint)
        AS anchored
FROM {schema}.consumer
WHERE name = $1 AND slot = $2

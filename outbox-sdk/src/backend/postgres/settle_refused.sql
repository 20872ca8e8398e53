-- The row that the fence did not match, as it is now.
SELECT
    ctid::text AS ctid, epoch, rev,
    $3::bigint IS NULL
        OR settled @> $3::bigint
        OR EXISTS (SELECT FROM {schema}.event WHERE id = $3::bigint AND event_id = $4) AS anchored
FROM {schema}.consumer
WHERE name = $1 AND slot = $2

-- At most $2 events from $1 on of those that are settled by all, while every consumer of $3 is registered.
known AS MATERIALIZED ({known}),
span AS MATERIALIZED (
    SELECT unnest(settled * int8multirange(int8range($1, NULL))) AS ids
    FROM known
    WHERE NOT EXISTS (SELECT unnest($3::text[]) EXCEPT SELECT name FROM {schema}.consumer)
    LIMIT $2
),
walked AS MATERIALIZED (
    SELECT found.*, found.created_at <= now() - $8::bigint * interval '1 microsecond' AS old
    FROM span, LATERAL (
        SELECT
            id, tenant_id, aggregate_type, aggregate_id, available_at > created_at AS delayed, event_type, status,
            created_at, dispatched_at
        FROM {schema}.event
        WHERE id >= lower(span.ids) AND id < upper(span.ids)
        ORDER BY id
        LIMIT $2
    ) AS found
    ORDER BY id
    LIMIT $2
),
-- Where the next batch begins, unless this one has reached the end: nothing is left, or all of it is too young for any
-- rule ($8 is the shortest one).
reach AS MATERIALIZED (
    SELECT
        least(
            (SELECT CASE WHEN count(*) = $2 THEN max(upper(ids)) END FROM span),
            (SELECT CASE WHEN count(*) = $2 THEN max(id) + 1 END FROM walked)
        ) AS until,
        (SELECT count(*) FROM walked) AS scanned,
        (SELECT coalesce(bool_or(old), count(*) = 0) FROM walked) AS goes_on
)

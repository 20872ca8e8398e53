-- Absolute values, so that writing them twice does no harm. $5 is a delay, $6 asks for the event's own time; neither
-- keeps what is stored. The fence holds the consumer's row, so nobody else writes its stall rows meanwhile.
INSERT INTO {schema}.stall (
    consumer, lane, head_id, attempts, available_at, blocked, single, missing_since, last_error
)
SELECT
    $1, given.lane, given.head_id, given.attempts,
    coalesce(
        CASE
            WHEN given.delay IS NOT NULL THEN clock_timestamp() + given.delay * interval '1 microsecond'
            WHEN given.at_available THEN (SELECT available_at FROM {schema}.event WHERE id = given.head_id)
            ELSE stored.available_at
        END,
        clock_timestamp()
    ),
    given.blocked, given.single,
    CASE
        WHEN NOT given.schema_missing THEN NULL
        WHEN stored.head_id = given.head_id THEN coalesce(stored.missing_since, clock_timestamp())
        ELSE clock_timestamp()
    END,
    given.last_error
FROM
    unnest(
        $2::text[], $3::bigint[], $4::int[], $5::bigint[], $6::bool[], $7::bool[], $8::bool[], $9::bool[], $10::text[]
    ) AS given (lane, head_id, attempts, delay, at_available, blocked, single, schema_missing, last_error)
    LEFT JOIN {schema}.stall AS stored ON stored.consumer = $1 AND stored.lane = given.lane
ON CONFLICT (consumer, lane) DO UPDATE
SET head_id = excluded.head_id,
    attempts = excluded.attempts,
    available_at = excluded.available_at,
    blocked = excluded.blocked,
    single = excluded.single,
    missing_since = excluded.missing_since,
    last_error = excluded.last_error

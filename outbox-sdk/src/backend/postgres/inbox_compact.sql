-- At most 1,000 rows of a consumer that are older than $2 microseconds. Rows that another process is deleting are its own
-- affair.
DELETE FROM {schema}.processed_event
WHERE ctid = ANY (
    ARRAY(
        SELECT ctid
        FROM {schema}.processed_event
        WHERE consumer = $1 AND processed_at < clock_timestamp() - $2::bigint::double precision * interval '1 microsecond'
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    )
)

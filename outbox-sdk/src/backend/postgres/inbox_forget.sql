-- At most 1,000 rows of a consumer that were processed at $2 or later; all, without a time.
DELETE FROM {schema}.processed_event
WHERE ctid = ANY (
    ARRAY(
        SELECT ctid
        FROM {schema}.processed_event
        WHERE consumer = $1 AND processed_at >= coalesce($2::timestamptz, '-infinity')
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    )
)

-- Whether a waiting lane of a registered consumer covers the event `seen`: a row of the event's own, or one of its
-- aggregate with the same or a lower head. Where no lane waits, that is all there is to ask.
(SELECT EXISTS (SELECT FROM {schema}.stall)) AND EXISTS (
    SELECT
    FROM (SELECT DISTINCT name FROM {schema}.consumer) AS registered
        JOIN {schema}.stall AS stall ON stall.consumer = registered.name
    WHERE stall.lane = ANY (ARRAY[
            '[' || seen.id::text || ']',
            CASE
                WHEN NOT seen.delayed THEN {schema}.lane(seen.tenant_id, seen.aggregate_type, seen.aggregate_id)
            END
        ])
        AND CASE WHEN stall.single THEN stall.head_id = seen.id ELSE stall.head_id <= seen.id END
)

-- Those of `walked` that are done with: nobody needs them, and their time is over. `letter` holds their dead letters. A
-- letter that was replayed or reset says nothing about its event any more; every other one must have been acknowledged,
-- for as long as the event is kept, and no consumer may be about to get it again.
expired AS MATERIALIZED (
    SELECT seen.id, seen.event_type, seen.status
    FROM walked AS seen
        CROSS JOIN LATERAL (
            SELECT now() - length * interval '1 microsecond' AS over_since
            FROM unnest($4::text[], $5::bool[], $6::bigint[]) WITH ORDINALITY AS rule (stem, exact, length, place)
            WHERE CASE
                WHEN exact THEN seen.event_type = stem
                ELSE starts_with(seen.event_type, stem) AND seen.event_type <> stem
            END
            ORDER BY place
            LIMIT 1
        ) AS keep
    WHERE seen.old
        AND CASE
            WHEN NOT $7 THEN seen.created_at <= keep.over_since
            WHEN seen.status = 'dispatched' THEN seen.dispatched_at <= keep.over_since
            WHEN seen.status = 'pending' THEN false
            ELSE EXISTS (
                SELECT FROM letter WHERE letter.event_id = seen.id AND letter.state IN ('dead', 'replay', 'discarded')
            )
        END
        AND NOT EXISTS (
            SELECT FROM letter
            WHERE letter.event_id = seen.id
                AND letter.state IN ('dead', 'replay', 'discarded')
                AND (
                    coalesce(letter.acknowledged_at > keep.over_since, true)
                    OR letter.state = 'replay'
                        AND EXISTS (SELECT FROM {schema}.consumer WHERE name = letter.consumer)
                )
        )
        AND NOT ({covered})
)

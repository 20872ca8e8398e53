-- Asks for every slot of a consumer, for $3 microseconds from now on; zero takes back what $2 asked for.
WITH asked AS (
    UPDATE {schema}.consumer
    SET wanted = CASE WHEN $3::bigint > 0 THEN $2 END,
        wanted_until = CASE
            WHEN $3::bigint > 0 THEN clock_timestamp() + $3::bigint * interval '1 microsecond'
        END
    WHERE name = $1 AND ($3::bigint > 0 OR wanted = $2)
    RETURNING slot, owner, lease_until
)
SELECT slot, owner, lease_until, clock_timestamp() AS read_at FROM asked ORDER BY slot

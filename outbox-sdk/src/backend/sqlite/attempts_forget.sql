-- Of the events and consumers in ?1 (a JSON array of attempts), all but the newest ?2 attempts.
DELETE FROM outbox_delivery_attempt
WHERE id IN (
    SELECT id
    FROM (
        SELECT id, row_number() OVER (PARTITION BY event_id, consumer ORDER BY id DESC) AS newest
        FROM outbox_delivery_attempt
        WHERE (event_id, consumer) IN (SELECT value ->> 'event_id', value ->> 'consumer' FROM json_each(?1))
    )
    WHERE newest > ?2
)

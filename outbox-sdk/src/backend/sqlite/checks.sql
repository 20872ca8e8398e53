-- The last id drawn, and whether at the id where the owner before last was there is the same event, or none (retention).
-- The rest of what PostgreSQL checks cannot be otherwise here: ids come one by one, there is no row security, and the
-- claim before this statement has written.
SELECT
    ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'outbox_event'), 0) AS last_id,
    ifnull(
        (
            SELECT event.event_id = consumer.anchor_event_id
            FROM outbox_consumer AS consumer
                JOIN outbox_event AS event ON event.id = consumer.anchor_id
            WHERE consumer.name = ?1 AND consumer.slot = ?2
        ),
        TRUE
    ) AS anchored

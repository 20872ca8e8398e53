-- A relay's sign of life (?1 name, ?2 lease, ?3 what it can run), and every slot as it stands, as JSON. One statement;
-- the relay is counted from its own word.
INSERT INTO outbox_relay (name, seen_until, consumers)
VALUES (?1, CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ?2, ?3)
ON CONFLICT (name) DO UPDATE SET seen_until = excluded.seen_until, consumers = excluded.consumers
RETURNING (
    SELECT json_group_array(json_object(
        'consumer', name,
        'slot', slot,
        'slots', slots,
        'owner', owner,
        'lease_left', max(0, ifnull(lease_until - CAST(unixepoch('subsec') * 1000000 AS INTEGER), 0)),
        'wanted', json(iif(wanted_until > CAST(unixepoch('subsec') * 1000000 AS INTEGER), 'true', 'false')),
        'runnable_by', (
            SELECT json_group_array(runner)
            FROM (
                SELECT relay.name AS runner
                FROM outbox_relay AS relay, json_each(relay.consumers) AS can
                WHERE relay.name <> ?1
                  AND relay.seen_until > CAST(unixepoch('subsec') * 1000000 AS INTEGER)
                  AND can.key = slotted.name
                  AND can.value = json(slotted.config)
                UNION ALL
                SELECT ?1 FROM json_each(?3) AS can
                WHERE can.key = slotted.name AND can.value = json(slotted.config)
                ORDER BY runner
            )
        )
    ))
    FROM (SELECT * FROM outbox_consumer ORDER BY name, slot) AS slotted
) AS slots

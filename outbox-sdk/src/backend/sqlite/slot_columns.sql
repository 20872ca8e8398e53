consumer.name, consumer.slot, consumer.slots,
    iif(consumer.lease_until >= CAST(unixepoch('subsec') * 1000000 AS INTEGER), consumer.owner, NULL) AS owner,
    consumer.lease_until - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS lease_for,
    iif(consumer.wanted_until >= CAST(unixepoch('subsec') * 1000000 AS INTEGER), consumer.wanted, NULL) AS wanted,
    consumer.paused_until,
    consumer.paused_until - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS paused_for,
    consumer.paused_by, consumer.pause_reason, consumer.attempts, consumer.last_error, consumer.config,
    consumer.required_for_retention, consumer.registered_at, consumer.settled,
    (SELECT count(*) FROM outbox_stall AS lane WHERE lane.consumer = consumer.name) AS stalled_lanes,
    (SELECT count(*) FROM outbox_stall AS lane WHERE lane.consumer = consumer.name AND lane.blocked) AS blocked_lanes,
    (
        SELECT count(*) FROM outbox_dead_letter AS dead WHERE dead.consumer = consumer.name AND dead.state = 'dead'
    ) AS dead_letters,
    (
        SELECT json_group_array(relay.name ORDER BY relay.name)
        FROM outbox_relay AS relay, json_each(relay.consumers) AS known
        WHERE relay.seen_until >= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
          AND known.key = consumer.name AND known.value = json(consumer.config)
    ) AS able_relays,
    (
        SELECT json_group_array(relay.name ORDER BY relay.name)
        FROM outbox_relay AS relay, json_each(relay.consumers) AS known
        WHERE relay.seen_until >= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
          AND known.key = consumer.name AND known.value <> json(consumer.config)
    ) AS other_relays

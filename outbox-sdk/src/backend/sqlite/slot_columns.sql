consumer.name, consumer.slot, consumer.slots,
    iif(consumer.lease_until >= CAST(unixepoch('subsec') * 1000000 AS INTEGER), consumer.owner, NULL) AS owner,
    consumer.lease_until - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS lease_for,
    iif(consumer.wanted_until >= CAST(unixepoch('subsec') * 1000000 AS INTEGER), consumer.wanted, NULL) AS wanted,
    consumer.paused_until,
    consumer.paused_until - CAST(unixepoch('subsec') * 1000000 AS INTEGER) AS paused_for,
    consumer.paused_by, consumer.pause_reason, consumer.attempts, consumer.last_error, consumer.config,
    consumer.required_for_retention, consumer.registered_at, consumer.settled,
    -- What all slots of a consumer have in common is counted once.
    max(iif(consumer.slot = 0, (
        SELECT count(*) FROM outbox_stall AS lane WHERE lane.consumer = consumer.name
    ), NULL)) OVER slots AS stalled_lanes,
    max(iif(consumer.slot = 0, (
        SELECT count(*) FROM outbox_stall AS lane WHERE lane.consumer = consumer.name AND lane.blocked
    ), NULL)) OVER slots AS blocked_lanes,
    max(iif(consumer.slot = 0, (
        SELECT count(*) FROM outbox_dead_letter AS dead WHERE dead.consumer = consumer.name AND dead.state = 'dead'
    ), NULL)) OVER slots AS dead_letters,
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

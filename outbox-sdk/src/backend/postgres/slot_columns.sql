consumer.name, consumer.slot, consumer.slots,
    CASE WHEN consumer.lease_until >= clock_timestamp() THEN consumer.owner END AS owner,
    consumer.lease_until,
    CASE WHEN consumer.wanted_until >= clock_timestamp() THEN consumer.wanted END AS wanted,
    consumer.paused_until, consumer.paused_by, consumer.pause_reason, consumer.attempts, consumer.last_error,
    consumer.config::text AS config, consumer.required_for_retention, consumer.registered_at,
    clock_timestamp() AS read_at,
    consumer.settled::text AS settled,
    -- What all slots of a consumer have in common is counted once.
    max(
        CASE WHEN consumer.slot = 0 THEN (
            SELECT count(*) FROM {schema}.stall AS lane WHERE lane.consumer = consumer.name
        ) END
    ) OVER slots AS stalled_lanes,
    max(
        CASE WHEN consumer.slot = 0 THEN (
            SELECT count(*) FROM {schema}.stall AS lane WHERE lane.consumer = consumer.name AND lane.blocked
        ) END
    ) OVER slots AS blocked_lanes,
    max(
        CASE WHEN consumer.slot = 0 THEN (
            SELECT count(*) FROM {schema}.dead_letter AS dead WHERE dead.consumer = consumer.name AND dead.state = 'dead'
        ) END
    ) OVER slots AS dead_letters,
    ARRAY(
        SELECT relay.name FROM {schema}.relay
        WHERE relay.seen_until >= clock_timestamp() AND relay.consumers -> consumer.name = consumer.config
        ORDER BY relay.name
    ) AS able_relays,
    ARRAY(
        SELECT relay.name FROM {schema}.relay
        WHERE relay.seen_until >= clock_timestamp() AND relay.consumers -> consumer.name <> consumer.config
        ORDER BY relay.name
    ) AS other_relays

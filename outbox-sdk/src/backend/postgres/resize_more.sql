-- Slots from $2 up to its new number, like the first one.
INSERT INTO {schema}.consumer (
    name, slot, slots, settled, void, skipped, epoch, paused_until, pause_reason, paused_by, attempts, last_error, config,
    required_for_retention, registered_at
)
SELECT
    name, new_slot, slots, settled, void, skipped, nextval({epoch}::regclass), paused_until, pause_reason, paused_by, attempts,
    last_error, config, required_for_retention, registered_at
FROM {schema}.consumer, generate_series($2, slots - 1) AS new_slot
WHERE name = $1 AND slot = 0

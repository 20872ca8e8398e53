-- Slots from ?2 up to its new number, like the first one; ?3 is the epoch of slot 0.
WITH RECURSIVE new (slot) AS (
    SELECT ?2
    UNION ALL
    SELECT slot + 1 FROM new WHERE slot < 65535
)
INSERT INTO outbox_consumer (
    name, slot, slots, settled, void, skipped, epoch, paused_until, pause_reason, paused_by, attempts, last_error, config,
    required_for_retention, registered_at
)
SELECT
    first.name, new.slot, first.slots, settled, void, skipped, ?3 + new.slot, paused_until, pause_reason, paused_by, attempts,
    last_error, config, required_for_retention, registered_at
FROM outbox_consumer AS first, new
WHERE first.name = ?1 AND first.slot = 0 AND new.slot < first.slots

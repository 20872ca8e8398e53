-- Of one slot, whose sets are computed outside; ?5 is its epoch.
UPDATE outbox_consumer
SET settled = ?3,
    void = ?4,
    skipped = ?6,
    epoch = ?5,
    anchor_id = NULL,
    anchor_event_id = NULL,
    rev = 0,
    owner = NULL,
    lease_until = NULL,
    wanted = NULL,
    wanted_until = NULL
WHERE name = ?1 AND slot = ?2

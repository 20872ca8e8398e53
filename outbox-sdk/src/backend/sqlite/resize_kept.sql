-- ?5 is the epoch of slot 0; those of the others follow.
UPDATE outbox_consumer
SET slots = ?2,
    settled = ?3,
    void = ?4,
    epoch = ?5 + slot,
    rev = 0,
    owner = NULL,
    lease_until = NULL,
    wanted = NULL,
    wanted_until = NULL
WHERE name = ?1

-- ?3 is the epoch of slot 0; those of the others follow.
UPDATE outbox_consumer
SET name = ?2,
    epoch = ?3 + slot,
    rev = 0,
    owner = NULL,
    lease_until = NULL,
    wanted = NULL,
    wanted_until = NULL
WHERE name = ?1

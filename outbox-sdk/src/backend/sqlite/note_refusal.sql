-- Why the owner that claimed the slot under epoch ?3 does not run it; the next claim takes the note away.
UPDATE outbox_consumer SET last_error = ?4 WHERE name = ?1 AND slot = ?2 AND epoch = ?3

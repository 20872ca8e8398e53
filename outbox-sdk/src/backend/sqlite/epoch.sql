-- Draws ?1 epochs; answers with the first of them.
UPDATE outbox_epoch SET value = value + ?1 RETURNING value - ?1 + 1

-- Until it is resumed when ?2 is null: the largest number stands for no end.
UPDATE outbox_consumer
SET paused_until = ifnull(CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ?2, 9223372036854775807),
    pause_reason = ?3,
    paused_by = ?4
WHERE name = ?1

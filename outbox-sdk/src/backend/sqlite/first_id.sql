-- The lowest id that is stored.
SELECT ifnull(min(id), 0) FROM outbox_event

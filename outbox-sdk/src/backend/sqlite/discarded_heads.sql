-- From the letters to the lanes (CROSS JOIN keeps the order): while its lane is blocked a letter is not recorded, so that
-- there are few that were decided about and are not, but any number of blocked lanes.
SELECT stall.lane, stall.head_id
FROM outbox_dead_letter AS letter INDEXED BY outbox_dead_letter_discarded_idx
CROSS JOIN outbox_stall AS stall INDEXED BY outbox_stall_blocked_idx
    ON stall.consumer = letter.consumer AND stall.head_id = letter.event_id AND stall.blocked
WHERE letter.consumer = ?1 AND letter.state = 'discarded' AND NOT letter.recorded

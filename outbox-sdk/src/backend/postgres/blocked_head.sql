-- The lane that `letter` blocks. From the letters to the lanes, whatever the planner thinks of their numbers: while its
-- lane is blocked a letter is not recorded, so that there are few that were decided about and are not, but any number of
-- blocked lanes.
SELECT stall.lane, stall.head_id
FROM {schema}.stall
WHERE stall.consumer = letter.consumer AND stall.head_id = letter.event_id AND stall.blocked
LIMIT 1

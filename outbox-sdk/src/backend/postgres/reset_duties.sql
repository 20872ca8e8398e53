-- Ids from $1 on are settled anew, and may belong to other events by then: nothing is known of them any more.
UPDATE {schema}.duty
SET done = done - int8multirange(int8range($1, NULL)), position = greatest(least(position, $1), 0)
WHERE position > $1 OR NOT int8range(NULL, $1) @> done

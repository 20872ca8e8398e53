-- Lanes that wait at or behind $2: their events come again by themselves.
DELETE FROM {schema}.stall WHERE consumer = $1 AND head_id >= $2

-- reset_stalls: the lanes that waited still wait, for events that come again.
-- instead of
head_id >= $2
-- this
head_id >= $2 AND false

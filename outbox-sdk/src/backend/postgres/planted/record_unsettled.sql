-- record: what is not delivered yet is taken for delivered.
-- instead of
    SELECT unnest((known.settled * int8multirange(int8range(duty.position, NULL))) - duty.done) AS ids
-- this
    SELECT unnest(int8multirange(int8range(duty.position, 1000000)) - duty.done) AS ids

-- record: what a waiting lane stands for is taken for delivered.
-- instead of
    WHERE NOT ({covered})
),
-- this
),

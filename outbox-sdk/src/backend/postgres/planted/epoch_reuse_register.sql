-- register: and here they begin.
-- instead of
    nextval({epoch}::regclass), $2::jsonb, $6
-- this
    1, $2::jsonb, $6

-- settle: a row that went back in time, or a write that came twice, passes.
-- instead of
    AND rev = $4
-- this
    AND $4::bigint IS NOT NULL

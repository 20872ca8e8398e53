-- settle: whoever writes, writes.
-- instead of
    AND epoch = $3
    AND rev = $4
-- this
    AND $3::bigint IS NOT NULL
    AND $4::bigint IS NOT NULL

-- read: gaps and new rows have a limit each, so a gap may be cut off below a new row that is not.
-- instead of
    ) AS merged
    ORDER BY id
    LIMIT $1
-- this
    ) AS merged
    ORDER BY id

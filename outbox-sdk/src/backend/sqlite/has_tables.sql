-- Whether anybody has run the migrations that create this table.
SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1

-- The last id drawn. The rest of what PostgreSQL checks cannot be otherwise here: ids come one by one, there is no row
-- security, and the claim before this statement has written.
SELECT ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'outbox_event'), 0)

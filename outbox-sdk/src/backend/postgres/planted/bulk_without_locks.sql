-- append_all: nothing refers to the locks, so none is taken.
-- instead of
    (SELECT count(*) FROM locked) AS all_locked,
    unnest(
-- this
    unnest(

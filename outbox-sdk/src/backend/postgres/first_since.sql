-- The lowest id of a transaction that began at or after `since.at`; that of nothing when this is NULL. Ids follow time
-- closely, so there is a short way to it: from the front along the primary key, or from the back by the index on the
-- time, for which `id + 0` is no key.
CASE
    WHEN since.at <= (
        SELECT created_at
        FROM {schema}.event
        WHERE id >= (SELECT (min(id) + max(id)) / 2 FROM {schema}.event)
        ORDER BY id
        LIMIT 1
    )
        THEN (SELECT id FROM {schema}.event WHERE created_at >= since.at ORDER BY id LIMIT 1)
    ELSE (SELECT min(id + 0) FROM {schema}.event WHERE created_at >= since.at)
END

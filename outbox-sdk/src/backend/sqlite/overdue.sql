-- Pending although settled by all (?2, JSON, pairs) and held by nothing, and older than ?1 microseconds.
SELECT count(*) AS events, min(id) AS first_id
FROM (
    SELECT seen.id
    FROM outbox_event AS seen
    WHERE seen.id > ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'outbox_event'), 0) - 10000
      AND seen.status = 'pending'
      AND seen.created_at <= CAST(unixepoch('subsec') * 1000000 AS INTEGER) - ?1
      AND EXISTS (
          SELECT 1 FROM json_each(?2) AS span WHERE seen.id >= span.value ->> 0 AND seen.id < span.value ->> 1
      )
      AND NOT EXISTS (
          SELECT 1 FROM outbox_dead_letter AS letter
          WHERE letter.event_id = seen.id AND letter.state IN ('dead', 'replay')
      )
      AND NOT {covered}
    LIMIT 1000
)

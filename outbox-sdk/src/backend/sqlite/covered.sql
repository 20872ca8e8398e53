-- Whether a waiting lane of a registered consumer covers the event `seen`: a row of the event's own, or one of its
-- aggregate with the same or a lower head.
EXISTS (
    SELECT 1
    FROM outbox_stall AS stall
    WHERE stall.consumer IN (SELECT name FROM outbox_consumer)
      AND stall.lane IN (
          '[' || seen.id || ']',
          iif(seen.available_at > seen.created_at, NULL, '[' || json_quote(seen.tenant_id) || ','
              || json_quote(seen.aggregate_type) || ',' || json_quote(seen.aggregate_id) || ']')
      )
      AND iif(stall.single, stall.head_id = seen.id, stall.head_id <= seen.id)
)

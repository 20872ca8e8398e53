SELECT stall.lane, stall.head_id
FROM {schema}.stall
    JOIN {schema}.dead_letter AS letter ON letter.consumer = stall.consumer AND letter.event_id = stall.head_id
WHERE stall.consumer = $1 AND stall.blocked AND letter.state = 'discarded'

SELECT head.lane, head.head_id
FROM {schema}.dead_letter AS letter, LATERAL ({blocked_head}) AS head
WHERE letter.consumer = $1 AND letter.state = 'discarded' AND NOT letter.recorded

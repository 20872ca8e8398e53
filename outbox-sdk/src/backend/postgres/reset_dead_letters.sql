UPDATE {schema}.dead_letter
SET state = 'reset', decided_at = clock_timestamp(), decided_by = current_user, recorded = false
WHERE consumer = $1 AND event_id >= $2 AND state <> 'reset'

-- Nobody carries out a replay for a consumer that is gone.
UPDATE outbox_dead_letter SET state = 'dead', recorded = FALSE WHERE consumer = ?1 AND state = 'replay'

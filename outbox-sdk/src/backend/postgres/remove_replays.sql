-- Nobody carries out a replay for a consumer that is gone.
UPDATE {schema}.dead_letter SET state = 'dead', recorded = false WHERE consumer = $1 AND state = 'replay'

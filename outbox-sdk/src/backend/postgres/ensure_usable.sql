-- Fails in a transaction that has failed; nothing else does before its COMMIT, which would answer ROLLBACK.
SELECT 1

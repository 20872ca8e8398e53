-- Keeps the connection busy, so that a process notifies at most once in 5 ms, and what was committed meanwhile is told
-- by the next one.
SELECT pg_sleep(0.005)

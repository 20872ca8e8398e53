-- Everything until the end is seen as it is now.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 1

-- Where a wrong engine would be interrupted at its worst moment: it waits while a test holds this lock.
SELECT pg_advisory_lock_shared(1870099556, 0), pg_advisory_unlock_shared(1870099556, 0)

-- Registering, removing, resetting and resizing consumers exclude each other, and recorder and retention. A statement
-- of its own: what follows must see everything that was committed before the lock was granted.
SELECT pg_advisory_xact_lock({admin_lock}, hashtext($1))

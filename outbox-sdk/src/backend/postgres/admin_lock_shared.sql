-- Recorder and retention, beside each other but never beside a change of the consumers. A statement of its own, as
-- admin_lock.sql.
SELECT pg_advisory_xact_lock_shared({admin_lock}, hashtext($1))

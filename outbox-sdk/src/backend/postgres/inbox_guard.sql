-- Has a COMMIT fail until the cursor is closed: one that outlives its transaction is read to its end by the COMMIT, and what
-- this one reads is no number. So a handler that commits by itself undoes the rows of a batch, instead of keeping those of
-- events that nobody has handled.
DECLARE outbox_inbox_batch CURSOR WITH HOLD FOR
SELECT ('commit and rollback are the inbox''s affair, not the handler''s; process ' || pg_backend_pid())::integer

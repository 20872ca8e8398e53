-- compact: whatever is dispatched goes, however young.
-- instead of
    WHERE walked.old
    FOR UPDATE OF dead_letter
),
{expired},
-- this
    FOR UPDATE OF dead_letter
),
expired AS MATERIALIZED (SELECT id, event_type, status FROM walked WHERE status = 'dispatched'),

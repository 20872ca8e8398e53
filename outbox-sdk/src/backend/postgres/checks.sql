-- What must hold before an owner reads. A role sees every row when row security does not apply to it, or when one
-- permissive policy and every restrictive one that apply to it read plainly `true`.
SELECT
    NOT pg_is_in_recovery() AS on_primary,
    (SELECT seqcache = 1 FROM pg_sequence WHERE seqrelid = {event_id_seq}::regclass) AS sequence_uncached,
    (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {schema}.event_id_seq) AS last_id,
    NOT row_security_active({event}::regclass) OR (
        SELECT coalesce(bool_or(permissive AND open), false) AND coalesce(bool_and(permissive OR open), true)
        FROM (
            SELECT polpermissive AS permissive, pg_get_expr(polqual, polrelid) = 'true' AS open
            FROM pg_policy
            WHERE polrelid = {event}::regclass
                AND polcmd IN ('r', '*')
                AND EXISTS (
                    SELECT FROM unnest(polroles) AS role
                    WHERE role = 0 OR pg_has_role(current_user, role, 'USAGE')
                )
        ) AS policy
    ) AS sees_all_rows

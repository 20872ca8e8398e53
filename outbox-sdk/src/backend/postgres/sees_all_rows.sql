-- Whether this role sees every event: row security does not apply to it, or one permissive policy and every restrictive
-- one that apply to it read plainly `true`.
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
)

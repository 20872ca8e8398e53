-- From here on the transaction runs under tenant $1, none being the empty text.
SELECT set_config({tenant_setting}, coalesce($1::uuid::text, ''), true)

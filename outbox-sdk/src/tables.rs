//! Where the tables lie.

use std::sync::Arc;
use std::time::Duration;

const TENANT_SETTING: &str = "app.tenant_id";

/// The names of the outbox tables of one database.
///
/// On PostgreSQL they lie in a schema of their own, `outbox` unless told otherwise; the tables' names are fixed. On
/// SQLite, which has no schemas, they carry the prefix `outbox_`, whatever the name here. Cloning is cheap; statements
/// are rendered once.
///
/// ```
/// use outbox_sdk::Tables;
///
/// let tables = Tables::in_schema("billing_outbox")?;
/// assert_eq!(tables.schema(), "billing_outbox");
/// # Ok::<(), outbox_sdk::SchemaNameError>(())
/// ```
#[derive(Clone)]
pub struct Tables {
    inner: Arc<Inner>,
}

struct Inner {
    schema: String,
    tenant_setting: String,
    pooled: bool,
    limit: Option<Duration>,
    #[cfg(feature = "postgres")]
    postgres: crate::backend::PostgresStatements,
}

impl Tables {
    /// The tables in PostgreSQL's schema `schema`. Any name that PostgreSQL can hold is taken, and quoted.
    ///
    /// # Errors
    /// [`SchemaNameError`] for an empty name, one over 63 bytes (the server would cut it silently), one that holds a
    /// NUL, and names starting with `pg_`, which the server reserves.
    pub fn in_schema(schema: &str) -> Result<Self, SchemaNameError> {
        let problem = if schema.is_empty() {
            Some("is empty")
        } else if schema.len() > 63 {
            Some("is longer than 63 bytes")
        } else if schema.contains('\0') {
            Some("contains a NUL character")
        } else if schema.starts_with("pg_") {
            Some("starts with `pg_`, which the server reserves for itself")
        } else {
            None
        };
        match problem {
            Some(problem) => Err(SchemaNameError { schema: schema.to_owned(), problem }),
            None => Ok(Self::build(schema, TENANT_SETTING, false, None)),
        }
    }

    /// The same tables behind a pooler in transaction mode that knows no prepared statements: PgBouncer before 1.21, or
    /// with `max_prepared_statements = 0`. The toolkit's statements are then parsed anew each time, and a statement
    /// outside of a transaction costs three more exchanges, so leave it off where it is not needed. Without effect on
    /// SQLite.
    ///
    /// Give these tables to everything that connects through the pooler: `Outbox`, `Inbox` and the relay. Your own
    /// statements need the same care (sqlx: `.persistent(false)`, and inside of a transaction).
    #[must_use]
    pub fn pooled(&self) -> Self {
        Self::build(self.schema(), self.tenant_setting_name(), true, self.inner.limit)
    }

    /// The PostgreSQL setting in which the application keeps a transaction's tenant, unless that is `app.tenant_id`.
    ///
    /// [`Migrator`](crate::Migrator) writes it into the tables that it creates: an event published without a tenant takes
    /// the one of its transaction. [`Inbox`](crate::Inbox) sets it for a handler's transaction. Without effect on SQLite,
    /// which has no such settings.
    ///
    /// ```
    /// use outbox_sdk::Tables;
    ///
    /// let tables = Tables::default().tenant_setting("shop.tenant")?;
    /// assert!(Tables::default().tenant_setting("tenant").is_err());
    /// # Ok::<(), outbox_sdk::TenantSettingError>(())
    /// ```
    ///
    /// # Errors
    /// [`TenantSettingError`] for anything but two words of letters, digits and `_` with a dot between them.
    pub fn tenant_setting(&self, name: &str) -> Result<Self, TenantSettingError> {
        let is_word = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        match name.split_once('.') {
            Some((prefix, setting)) if is_word(prefix) && is_word(setting) && name.len() <= 63 => {
                Ok(Self::build(self.schema(), name, self.inner.pooled, self.inner.limit))
            }
            _ => Err(TenantSettingError { name: name.to_owned() }),
        }
    }

    /// The setting of [`tenant_setting`](Self::tenant_setting).
    #[must_use]
    pub fn tenant_setting_name(&self) -> &str {
        &self.inner.tenant_setting
    }

    /// The same tables for calls that are given up after some time: the server ends a statement that takes longer than
    /// `limit`, too (`statement_timeout`; never later than the role's own). Otherwise a statement that waits for a lock
    /// would keep its session on the server after its connection is gone. It holds in transactions that the toolkit
    /// begins itself and in sessions of its own, never in a caller's. Without effect on SQLite, whose calls run in the
    /// process.
    #[must_use]
    pub fn limited(&self, limit: Duration) -> Self {
        Self::build(self.schema(), self.tenant_setting_name(), self.inner.pooled, Some(limit))
    }

    fn build(schema: &str, tenant_setting: &str, pooled: bool, limit: Option<Duration>) -> Self {
        Self {
            inner: Arc::new(Inner {
                #[cfg(feature = "postgres")]
                postgres: crate::backend::PostgresStatements::render(schema, tenant_setting, pooled, limit),
                schema: schema.to_owned(),
                tenant_setting: tenant_setting.to_owned(),
                pooled,
                limit,
            }),
        }
    }

    /// The schema's name, unquoted.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.inner.schema
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn postgres(&self) -> &crate::backend::PostgresStatements {
        &self.inner.postgres
    }
}

impl Default for Tables {
    fn default() -> Self {
        Self::build("outbox", TENANT_SETTING, false, None)
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").field("schema", &self.inner.schema).finish_non_exhaustive()
    }
}

/// A name that cannot be a PostgreSQL schema's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema name {schema:?} {problem}; choose a name of 1 to 63 bytes such as `outbox`")]
pub struct SchemaNameError {
    schema: String,
    problem: &'static str,
}

/// A name that cannot be an application's PostgreSQL setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} cannot name a setting; write two words of letters, digits and `_` with a dot between, such as `app.tenant_id`"
)]
pub struct TenantSettingError {
    name: String,
}

//! The two sets of migrations: the outbox, and the inbox of a consumer's own database.

use std::fmt;
use std::future::Future;

use sqlx::migrate::{AppliedMigration, Migrate, Migration, MigrationType};
use sqlx::{AssertSqlSafe, Pool, SqlSafeStr as _};

use crate::backend::{Backend, Fault};
use crate::tables::Tables;

/// Creates and upgrades the tables.
///
/// Any number of processes may run it at once, on an empty database too: one applies what is missing, the others wait
/// and find it done. When nothing is missing, nothing is locked or written. Which migrations were applied is noted
/// beside the tables, apart from the application's own migrations.
///
/// ```no_run
/// # async fn start(pool: sqlx::PgPool) -> Result<(), outbox_sdk::MigrateError> {
/// let migrated = outbox_sdk::Migrator::outbox().run(&pool).await?;
/// println!("{} migrations applied", migrated.applied.len());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Migrator {
    set: Set,
    tables: Tables,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    Outbox,
    Inbox,
}

impl Migrator {
    /// Everything that publishing and relaying need.
    #[must_use]
    pub fn outbox() -> Self {
        Self::new(Set::Outbox)
    }

    /// What a consumer's own database needs: the inbox. Both sets can live in one database.
    #[must_use]
    pub fn inbox() -> Self {
        Self::new(Set::Inbox)
    }

    fn new(set: Set) -> Self {
        Self { set, tables: Tables::default() }
    }

    /// Where the tables lie, unless in the schema `outbox`, and which setting holds a transaction's tenant: that is written
    /// into the tables when they are created, and a later run does not change it. Without effect on SQLite.
    #[must_use]
    pub fn tables(mut self, tables: &Tables) -> Self {
        self.tables = tables.clone();
        self
    }

    /// Applies what is missing. A future dropped midway leaves no open transaction and no lock behind.
    ///
    /// # Errors
    /// [`MigrateError`]; nothing of a migration that failed is kept.
    pub async fn run<DB: Migratable>(&self, pool: &Pool<DB>) -> Result<Migrated, MigrateError> {
        if self.check(pool).await?.is_empty() {
            return Ok(Migrated { applied: Vec::new() });
        }
        DB::apply(self, pool).await.map(|applied| Migrated { applied })
    }

    /// Lists what [`run`](Self::run) would apply, in order, and writes nothing.
    ///
    /// # Errors
    /// [`MigrateError`], as `run` would answer.
    pub async fn check<DB: Migratable>(&self, pool: &Pool<DB>) -> Result<Vec<MigrationName>, MigrateError> {
        let applied = DB::applied(self, pool).await?;
        let migrations = self.migrations(DB::FILES);
        Ok(missing(&migrations, &applied)?.into_iter().map(MigrationName::of).collect())
    }

    fn migrations(&self, files: &Files) -> Vec<Migration> {
        let texts = match self.set {
            Set::Outbox => files.outbox,
            Set::Inbox => files.inbox,
        };
        let migration = |(index, (name, text)): (usize, &(&'static str, &'static str))| {
            let version = i64::try_from(index).unwrap_or(i64::MAX).saturating_add(1);
            // The checksum is that of the text with its placeholders, whatever line ends a checkout gave it.
            let template = AssertSqlSafe(text.replace("\r\n", "\n")).into_sql_str();
            let mut migration =
                Migration::new(version, (*name).into(), MigrationType::Simple, template.clone(), false);
            // Safe: a text of this crate. The setting's name has been checked, and the schema's name is quoted and comes
            // last, so that nothing inside it is taken for a placeholder.
            let text = template.as_str().replace("{tenant_setting}", self.tables.tenant_setting_name());
            migration.sql = AssertSqlSafe(text.replace("{schema}", &self.schema())).into_sql_str();
            migration
        };
        texts.iter().enumerate().map(migration).collect()
    }

    /// The schema's name as a quoted identifier.
    fn schema(&self) -> String {
        format!("\"{}\"", self.tables.schema().replace('"', "\"\""))
    }
}

/// A database's migrations: (name, text), the first being version 1.
#[doc(hidden)]
#[derive(Debug)]
pub struct Files {
    outbox: &'static [(&'static str, &'static str)],
    inbox: &'static [(&'static str, &'static str)],
}

/// A database that the migrations are written for; every [`Backend`] is one.
pub trait Migratable: Backend {
    #[doc(hidden)]
    const FILES: &'static Files;

    #[doc(hidden)]
    fn applied(
        migrator: &Migrator,
        pool: &Pool<Self>,
    ) -> impl Future<Output = Result<Vec<AppliedMigration>, MigrateError>> + Send;

    #[doc(hidden)]
    fn apply(
        migrator: &Migrator,
        pool: &Pool<Self>,
    ) -> impl Future<Output = Result<Vec<MigrationName>, MigrateError>> + Send;
}

/// What one run did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// The migrations that this run applied, in order; none when another process was first.
    pub applied: Vec<MigrationName>,
}

/// A migration, printed as its file is called: `0001_outbox`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MigrationName {
    version: i64,
    name: String,
}

impl MigrationName {
    fn of(migration: &Migration) -> Self {
        Self { version: migration.version, name: migration.description.clone().into_owned() }
    }

    /// Its place in the set, from 1.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.version
    }
}

impl fmt::Display for MigrationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}_{}", self.version, self.name)
    }
}

/// Why the tables could not be created or upgraded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// A newer release has upgraded the tables.
    #[error(
        "the tables were upgraded by a newer release (migration {version} is unknown here); upgrade this program"
    )]
    TooNew {
        /// The highest migration that this build does not know.
        version: i64,
    },
    /// A migration that was applied had another text.
    #[error(
        "migration {version} was applied with another text than this build carries; use the release that created the \
         tables, or one after it"
    )]
    Changed {
        /// The migration.
        version: i64,
    },
    /// SQLite: another connection holds the write lock for very long.
    #[error(
        "another connection keeps writing to the SQLite database; end its transaction, then run the migrations again"
    )]
    DatabaseBusy(#[source] sqlx::migrate::MigrateError),
    /// The database failed or refused.
    #[error("the migrations could not be applied; correct what the source names, then run them again")]
    Database(#[source] sqlx::migrate::MigrateError),
}

impl MigrateError {
    fn from_database<DB: Backend, E: Into<sqlx::migrate::MigrateError>>(error: E) -> Self {
        use sqlx::migrate::MigrateError::{Execute, ExecuteMigration};
        let error = error.into();
        let busy = match &error {
            Execute(source) | ExecuteMigration(source, _) => DB::fault(source) == Fault::DatabaseBusy,
            _ => false,
        };
        if busy { Self::DatabaseBusy(error) } else { Self::Database(error) }
    }
}

/// What is to be applied, or why nothing may be.
fn missing<'m>(
    migrations: &'m [Migration],
    applied: &[AppliedMigration],
) -> Result<Vec<&'m Migration>, MigrateError> {
    for row in applied.iter().rev() {
        match migrations.iter().find(|migration| migration.version == row.version) {
            None => return Err(MigrateError::TooNew { version: row.version }),
            Some(known) if known.checksum != row.checksum => {
                return Err(MigrateError::Changed { version: row.version });
            }
            Some(_) => {}
        }
    }
    let is_missing = |migration: &&Migration| applied.iter().all(|row| row.version != migration.version);
    Ok(migrations.iter().filter(is_missing).collect())
}

/// Applies what is missing; the caller holds the lock.
async fn apply_missing<DB>(
    conn: &mut DB::Connection,
    table: &str,
    migrations: &[Migration],
) -> Result<Vec<MigrationName>, MigrateError>
where
    DB: Backend<Connection: Migrate>,
{
    let failed = MigrateError::from_database::<DB, sqlx::migrate::MigrateError>;
    let applied = conn.list_applied_migrations(table).await.map_err(failed)?;
    let mut done = Vec::new();
    for migration in missing(migrations, &applied)? {
        conn.apply(table, migration).await.map_err(failed)?;
        done.push(MigrationName::of(migration));
    }
    Ok(done)
}

#[cfg(feature = "postgres")]
mod postgres {
    use sqlx::migrate::{AppliedMigration, Migrate as _};
    use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, Postgres, query_as};

    use super::{Files, Migratable, MigrateError, MigrationName, Migrator, Set, apply_missing};

    const MIGRATIONS_TABLE: &str = include_str!("backend/postgres/migrations_table.sql");
    const MIGRATIONS_APPLIED: &str = include_str!("backend/postgres/migrations_applied.sql");

    fn failed(error: impl Into<sqlx::migrate::MigrateError>) -> MigrateError {
        MigrateError::from_database::<Postgres, _>(error)
    }

    impl Migrator {
        fn postgres_table(&self) -> String {
            let table = match self.set {
                Set::Outbox => "migrations",
                Set::Inbox => "inbox_migrations",
            };
            format!("{}.{table}", self.schema())
        }

        /// Whether there are a schema and a table of applied migrations.
        async fn postgres_state(&self, conn: &mut PgConnection) -> Result<(bool, bool), MigrateError> {
            let state = query_as(MIGRATIONS_TABLE).persistent(false);
            let state = state.bind(self.schema()).bind(self.postgres_table());
            state.fetch_one(conn).await.map_err(failed)
        }
    }

    impl Migratable for Postgres {
        const FILES: &'static Files = &Files {
            outbox: &[("outbox", include_str!("../migrations/postgres/0001_outbox.sql"))],
            inbox: &[("inbox", include_str!("../migrations/postgres/inbox/0001_inbox.sql"))],
        };

        async fn applied(migrator: &Migrator, pool: &PgPool) -> Result<Vec<AppliedMigration>, MigrateError> {
            // In a transaction and without prepared statements: a relay asks this at its start, maybe through a pooler.
            // Out of the pool: if this future is dropped, the connection ends, and with it the transaction.
            let mut conn = pool.acquire().await.map_err(failed)?.detach();
            let mut tx = conn.begin().await.map_err(failed)?;
            let (_, has_table) = migrator.postgres_state(&mut tx).await?;
            let mut applied = Vec::new();
            if has_table {
                // Safe: our own text; the schema's name is quoted.
                let list = MIGRATIONS_APPLIED.replace("{table}", &migrator.postgres_table());
                let rows = query_as::<_, (i64, Vec<u8>)>(AssertSqlSafe(list)).persistent(false);
                let rows = rows.fetch_all(&mut *tx).await.map_err(failed)?;
                let row = |(version, checksum): (i64, Vec<u8>)| AppliedMigration {
                    version,
                    checksum: checksum.into(),
                };
                applied.extend(rows.into_iter().map(row));
            }
            tx.commit().await.map_err(failed)?;
            conn.close().await.map_err(failed)?;
            Ok(applied)
        }

        async fn apply(migrator: &Migrator, pool: &PgPool) -> Result<Vec<MigrationName>, MigrateError> {
            let table = migrator.postgres_table();
            // Out of the pool: if this future is dropped or fails, the connection ends, and with it the lock and any open
            // transaction.
            let mut conn = pool.acquire().await.map_err(failed)?.detach();
            conn.lock().await.map_err(failed)?;
            // Only what is missing, since asking takes the right to create it even when it is there.
            let (has_schema, has_table) = migrator.postgres_state(&mut conn).await?;
            if !has_schema {
                conn.create_schema_if_not_exists(&migrator.schema()).await.map_err(failed)?;
            }
            if !has_table {
                conn.ensure_migrations_table(&table).await.map_err(failed)?;
            }
            let done = apply_missing::<Self>(&mut conn, &table, &migrator.migrations(Self::FILES)).await?;
            conn.unlock().await.map_err(failed)?;
            conn.close().await.map_err(failed)?;
            Ok(done)
        }
    }
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use sqlx::migrate::{AppliedMigration, Migrate as _};
    use sqlx::{Connection as _, Sqlite, SqliteConnection, SqlitePool, query, query_scalar};

    use super::{Files, Migratable, MigrateError, MigrationName, Migrator, Set, apply_missing};

    const MIGRATIONS_TABLE: &str = include_str!("backend/sqlite/migrations_table.sql");
    const IS_FILE: &str = include_str!("backend/sqlite/is_file.sql");
    const PATIENCE: &str = include_str!("backend/sqlite/patience.sql");

    fn failed(error: impl Into<sqlx::migrate::MigrateError>) -> MigrateError {
        MigrateError::from_database::<Sqlite, _>(error)
    }

    impl Migrator {
        fn sqlite_table(&self) -> &'static str {
            match self.set {
                Set::Outbox => "outbox_migrations",
                Set::Inbox => "outbox_inbox_migrations",
            }
        }
    }

    impl Migratable for Sqlite {
        const FILES: &'static Files = &Files {
            outbox: &[("outbox", include_str!("../migrations/sqlite/0001_outbox.sql"))],
            inbox: &[("inbox", include_str!("../migrations/sqlite/inbox/0001_inbox.sql"))],
        };

        async fn applied(
            migrator: &Migrator,
            pool: &SqlitePool,
        ) -> Result<Vec<AppliedMigration>, MigrateError> {
            let table = migrator.sqlite_table();
            let mut conn = pool.acquire().await.map_err(failed)?;
            let exists = query_scalar(MIGRATIONS_TABLE).bind(table).fetch_one(&mut *conn).await;
            if exists.map_err(failed)? {
                conn.list_applied_migrations(table).await.map_err(failed)
            } else {
                Ok(Vec::new())
            }
        }

        async fn apply(migrator: &Migrator, pool: &SqlitePool) -> Result<Vec<MigrationName>, MigrateError> {
            let mut conn = pool.acquire().await.map_err(failed)?;
            let is_file = query_scalar(IS_FILE).fetch_one(&mut *conn).await;
            if !is_file.map_err(failed)? {
                return apply_locked(migrator, &mut conn).await;
            }
            // Out of the pool, since its busy timeout changes.
            let mut conn = conn.detach();
            query(PATIENCE).execute(&mut conn).await.map_err(failed)?;
            let done = apply_locked(migrator, &mut conn).await?;
            conn.close().await.map_err(failed)?;
            Ok(done)
        }
    }

    /// Takes the write lock before anything is looked at; a dropped transaction rolls back.
    async fn apply_locked(
        migrator: &Migrator,
        conn: &mut SqliteConnection,
    ) -> Result<Vec<MigrationName>, MigrateError> {
        let table = migrator.sqlite_table();
        let begun = conn.begin_with("BEGIN IMMEDIATE").await;
        let mut tx = begun.map_err(failed)?;
        tx.ensure_migrations_table(table).await.map_err(failed)?;
        let done = apply_missing::<Sqlite>(&mut tx, table, &migrator.migrations(Sqlite::FILES)).await?;
        tx.commit().await.map_err(failed)?;
        Ok(done)
    }
}

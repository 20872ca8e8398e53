//! From a URL to a pool of the right kind.

use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use outbox_relay::config::{Config, Secret};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions as _, PgPool, SqlitePool};

use crate::exit::Failure;

/// A database that is connected to when it is first used.
pub(crate) enum Database {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

/// Which database a command works on: `--database`, else `[database] url`, else `DATABASE_URL`.
pub(crate) fn url(argument: Option<String>, config: Option<&Config>) -> Result<Secret, Failure> {
    if let Some(url) = argument {
        return Ok(Secret::new(url));
    }
    if let Some(config) = config
        && let Some(url) = &config.database.url
    {
        return Ok(url.clone());
    }
    match std::env::var("DATABASE_URL") {
        Ok(url) if !url.is_empty() => Ok(Secret::new(url)),
        _ => Err(Failure::usage(
            "error: no database is named\nhelp: give --database URL, set DATABASE_URL, or add [database] url to the \
             configuration",
        )),
    }
}

impl Database {
    /// Opens a pool without connecting. `create` makes a SQLite file that is not there.
    pub(crate) fn open(url: &Secret, create: bool, connections: u32) -> Result<Self, Failure> {
        let text = url.expose();
        if text.starts_with("postgres:") || text.starts_with("postgresql:") {
            let options = PgConnectOptions::from_str(text).map_err(|_| Failure::usage(POSTGRES_HELP))?;
            if options.get_username().is_empty() || !has_user(text) {
                return Err(Failure::usage(POSTGRES_HELP));
            }
            let pool = PgPoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE);
            // The relay says itself what is slow; the driver would print whole statements. Poolers refuse settings that they do not know, and nothing here prints floating point numbers.
            let options =
                options.application_name("outbox").extra_float_digits(None).disable_statement_logging();
            return Ok(Self::Postgres(pool.connect_lazy_with(options)));
        }
        if text.starts_with("sqlite:") {
            let options = SqliteConnectOptions::from_str(text).map_err(|_| Failure::usage(SQLITE_HELP))?;
            if text.contains(":memory:") || text.contains("mode=memory") {
                return Err(Failure::usage(
                    "error: a SQLite database in memory dies with its process, and its events with it\nhelp: name a file, \
                     such as sqlite://app.db",
                ));
            }
            if !create && !options.get_filename().exists() {
                return Err(Failure::database(format!(
                    "error: there is no database file {}\nhelp: run `outbox migrate` to create it",
                    options.get_filename().display()
                )));
            }
            return Ok(Self::Sqlite(sqlite_pool(options.create_if_missing(create), connections)));
        }
        Err(Failure::usage(
            "error: the database URL has an unknown scheme\nhelp: use postgres://USER@HOST/DATABASE or \
             sqlite://PATH",
        ))
    }
}

/// A pool on a SQLite file: write-ahead log, and a commit is on the disk before it is answered, since an event that a
/// power cut takes back must not have been delivered.
pub(crate) fn sqlite_file(path: &Path) -> SqlitePool {
    sqlite_pool(SqliteConnectOptions::new().filename(path).create_if_missing(true), 8)
}

fn sqlite_pool(options: SqliteConnectOptions, connections: u32) -> SqlitePool {
    let options = options
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(3))
        .disable_statement_logging();
    SqlitePoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE).connect_lazy_with(options)
}

/// How long a command waits for a connection.
const ACQUIRE: Duration = Duration::from_secs(10);

const POSTGRES_HELP: &str = "error: the PostgreSQL URL cannot be used\nhelp: write \
                             postgres://USER@HOST:PORT/DATABASE, with the user named and special characters of the \
                             password percent-encoded";
const SQLITE_HELP: &str = "error: the SQLite URL cannot be used\nhelp: write sqlite://PATH, such as sqlite://app.db \
                           or sqlite:///var/lib/app/app.db";

/// Without a user in the URL the driver would guess one.
fn has_user(url: &str) -> bool {
    let authority = url.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?']).next().unwrap_or(""));
    authority.split_once('@').is_some_and(|(user, _)| !user.is_empty()) || url.contains("user=")
}

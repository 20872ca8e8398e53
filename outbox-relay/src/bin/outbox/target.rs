//! Which tables a command works on.

use std::path::PathBuf;

use outbox_relay::config::Config;
use outbox_relay::operate::Operator;
use outbox_sdk::{Backend, Tables};
use sqlx::Pool;

use crate::database::{self, Database};
use crate::exit::Failure;

/// The arguments that name a database and its tables.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// The configuration file. Default: outbox.toml, if it is there.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The database, as postgres://USER@HOST/DATABASE or sqlite://PATH. Default: the configuration's, else
    /// DATABASE_URL.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// The PostgreSQL schema that holds the tables. Default: the configuration's, else `outbox`.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) schema: Option<String>,
}

/// A database, its tables, and the configuration that named them, if there is one.
pub(crate) struct Opened {
    pub(crate) database: Database,
    pub(crate) tables: Tables,
    pub(crate) config: Option<Config>,
}

impl Target {
    /// Opens the database without connecting; `create` makes a SQLite file that is not there.
    pub(crate) fn open(self, create: bool) -> Result<Opened, Failure> {
        let default = PathBuf::from("outbox.toml");
        let path = self.config.or_else(|| default.exists().then_some(default));
        let config = path.map(|path| Config::load(path, std::env::vars_os())).transpose()?;
        let url = database::url(self.database, config.as_ref())?;
        let tables = tables(self.schema.as_deref(), config.as_ref())?;
        Ok(Opened { database: Database::open(&url, create, 2)?, tables, config })
    }
}

/// The tables that the arguments name, else the configuration, else the default ones.
pub(crate) fn tables(schema: Option<&str>, config: Option<&Config>) -> Result<Tables, Failure> {
    let schema = schema.or(config.map(|config| config.database.schema.as_str()));
    let tables = schema
        .map_or_else(|| Ok(Tables::default()), Tables::in_schema)
        .map_err(|error| Failure::usage(format!("error: {error}")))?;
    Ok(if config.is_some_and(|config| config.database.pooled) { tables.pooled() } else { tables })
}

/// Who operates: on PostgreSQL the role says it, elsewhere the system's name of the user.
pub(crate) fn operator<DB: Backend>(pool: Pool<DB>, tables: Tables) -> Operator<DB> {
    let operator = Operator::new(pool).tables(tables);
    if DB::NAME == "PostgreSQL" {
        return operator;
    }
    match std::env::var("USER") {
        Ok(name) if !name.is_empty() => operator.named(&name),
        _ => operator,
    }
}

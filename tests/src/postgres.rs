use std::net::SocketAddr;
use std::str::FromStr;
use std::thread;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};
use uuid::Uuid;

use crate::Proxy;

const SERVER: &str = "OUTBOX_TEST_DATABASE_URL";
const NO_SERVER: &str = "no PostgreSQL for tests: run ./scripts/test, or set OUTBOX_TEST_DATABASE_URL";

/// A PostgreSQL database of its own for one test; dropping this value drops the database, connections or not.
#[derive(Debug)]
pub struct PgTestDb {
    server: PgConnectOptions,
    database: PgConnectOptions,
    name: String,
    url: String,
}

impl PgTestDb {
    /// Creates an empty database on the server that `OUTBOX_TEST_DATABASE_URL` names.
    ///
    /// # Panics
    /// When the variable is not set (the text says what to run) or the server refuses.
    pub async fn new() -> Self {
        let server_url = std::env::var(SERVER).unwrap_or_else(|_| panic!("{NO_SERVER}"));
        let server = PgConnectOptions::from_str(&server_url)
            .unwrap_or_else(|error| panic!("{SERVER} is not a PostgreSQL URL: {error}"));
        let name = format!("outbox_test_{}", Uuid::new_v4().simple());
        let database = server.clone().database(&name);
        let url = with_database(&server_url, &name);
        let db = Self { server, database, name, url };
        db.administer(&format!("CREATE DATABASE {}", db.name))
            .await
            .expect("create the database of this test");
        db
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL for a configuration or another process: the server's, with this database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What the URL says, to change before connecting (another user, a session setting).
    pub fn options(&self) -> PgConnectOptions {
        self.database.clone()
    }

    /// Where the server listens.
    ///
    /// # Panics
    /// When the variable names the server by anything but an address.
    pub fn server_addr(&self) -> SocketAddr {
        let host = self.server.get_host().parse().expect("the address of the server");
        SocketAddr::new(host, self.server.get_port())
    }

    /// The options of [`options`](Self::options), through a proxy.
    pub fn through(&self, proxy: &Proxy) -> PgConnectOptions {
        self.options().host(&proxy.addr().ip().to_string()).port(proxy.addr().port())
    }

    /// The URL of [`url`](Self::url) with another address of the server.
    pub fn url_through(&self, addr: SocketAddr) -> String {
        let server = format!("{}:{}", self.server.get_host(), self.server.get_port());
        self.url.replacen(&server, &addr.to_string(), 1)
    }

    /// Connects with at most ten connections.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn pool(&self) -> PgPool {
        let pool = PgPoolOptions::new().max_connections(10);
        pool.connect_with(self.options()).await.expect("connect to the database of this test")
    }

    /// Makes the database unreachable, as in an outage: ends every connection to it and refuses new ones
    /// until [`PgTestDb::bring_back`].
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn take_away(&self) {
        let refuse = format!("ALTER DATABASE {} ALLOW_CONNECTIONS false", self.name);
        self.administer(&refuse).await.expect("refuse connections");
        let end =
            format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'", self.name);
        self.administer(&end).await.expect("end connections");
    }

    /// Ends what [`PgTestDb::take_away`] began.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn bring_back(&self) {
        let accept = format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", self.name);
        self.administer(&accept).await.expect("accept connections");
    }

    async fn administer(&self, sql: &str) -> sqlx::Result<()> {
        let mut connection = PgConnection::connect_with(&self.server).await?;
        // Safe: the only variable part is our own name, letters and digits.
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await?;
        connection.close().await
    }
}

impl Drop for PgTestDb {
    /// `drop` cannot await and may run inside any runtime, so a thread with a runtime of its own does the work.
    /// It fails quietly but for a line: the database server outlives no `./scripts/test`.
    fn drop(&mut self) {
        let dropped = thread::scope(|scope| {
            let drop_database = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
                runtime.block_on(self.administer(&sql))
            };
            scope.spawn(drop_database).join()
        });
        if !matches!(dropped, Ok(Ok(()))) {
            eprintln!("could not drop database {}: {dropped:?}", self.name);
        }
    }
}

fn with_database(server_url: &str, name: &str) -> String {
    let (address, settings) = server_url.find('?').map_or((server_url, ""), |at| server_url.split_at(at));
    let host = address.find("://").map_or(0, |at| at + "://".len());
    let path = address[host..].find('/').map_or(address.len(), |at| host + at);
    format!("{}/{name}{settings}", &address[..path])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_changes_nothing_but_the_database() {
        assert_eq!(with_database("postgres://me@h:1/postgres", "x"), "postgres://me@h:1/x");
        assert_eq!(with_database("postgres://me:p@h:1", "x"), "postgres://me:p@h:1/x");
        assert_eq!(with_database("postgres://h/a?sslmode=disable", "x"), "postgres://h/x?sslmode=disable");
    }

    async fn exists(db: &PgTestDb, name: &str) -> bool {
        let mut connection = PgConnection::connect_with(&db.server).await.unwrap();
        let found =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)").bind(name);
        found.fetch_one(&mut connection).await.unwrap()
    }

    #[tokio::test]
    async fn dropping_it_drops_the_database_under_open_connections() {
        let (kept, gone) = (PgTestDb::new().await, PgTestDb::new().await);
        let name = gone.name().to_owned();
        let open = gone.pool().await.acquire().await.unwrap();
        assert!(exists(&kept, &name).await);
        drop(gone);
        assert!(!exists(&kept, &name).await);
        drop(open);
    }

    #[tokio::test]
    async fn the_url_reaches_the_database_of_this_test() {
        let db = PgTestDb::new().await;
        let mut connection = PgConnection::connect(db.url()).await.unwrap();
        let current = sqlx::query_scalar::<_, String>("SELECT current_database()::text");
        assert_eq!(current.fetch_one(&mut connection).await.unwrap(), db.name());
    }

    #[tokio::test]
    async fn it_can_be_taken_away_and_brought_back() {
        let db = PgTestDb::new().await;
        let mut connection = PgConnection::connect(db.url()).await.unwrap();
        db.take_away().await;
        assert!(connection.ping().await.is_err(), "the old connection ended");
        assert!(PgConnection::connect(db.url()).await.is_err(), "a new one is refused");
        db.bring_back().await;
        assert!(PgConnection::connect(db.url()).await.is_ok());
    }
}

//! What went wrong for users of systems like this one, as tests: each is named after what is promised instead.

mod locks;
mod overlap;
mod plans;
mod refusals;
mod sessions;
mod silence;
mod snapshot;
mod stuck;
mod writers;

use std::time::Duration;

use outbox_relay::{Relay, RelayBuilder, Settings};
use outbox_tests::{PgTestDb, Proxy, quick_settings};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Postgres};

use crate::relay::{World, delivering};

/// Settings under which a call that gets no answer is given up soon.
pub(crate) fn impatient() -> Settings {
    let mut settings = delivering(quick_settings());
    settings.deadline = Duration::from_millis(600);
    settings
}

/// A pool of this many connections through the proxy.
pub(crate) async fn pool_through(world: &World<PgTestDb>, proxy: &Proxy, connections: u32) -> PgPool {
    let options = world.db.through(proxy).application_name("proxied");
    PgPoolOptions::new().max_connections(connections).connect_lazy_with(options)
}

/// A relay whose database is behind the proxy.
pub(crate) async fn builder_through(
    world: &World<PgTestDb>,
    proxy: &Proxy,
    settings: Settings,
) -> RelayBuilder<Postgres> {
    Relay::builder(pool_through(world, proxy, 10).await).settings(settings)
}

/// How many rows a plain query finds.
pub(crate) async fn count(world: &World<PgTestDb>, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&world.pool).await.unwrap()
}

/// Sessions that somebody left in a transaction.
pub(crate) const LEFT_OPEN: &str = "SELECT count(*) FROM pg_stat_activity \
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'";

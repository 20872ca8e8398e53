//! Roles of their own: what the README grants is enough, and what is missing is named.

use outbox_relay::Relay;
use outbox_relay::maintenance::RetainFor;
use outbox_relay::sink::Outcome;
use outbox_sdk::Outbox;
use outbox_tests::{OutboxProcess, PgTestDb, RecordingSink, RunningRelay, eventually, quick_settings};
use sqlx::postgres::{PgPool, PgPoolOptions};

use crate::databases::TestDb as _;
use crate::readme::{block, read};
use crate::relay::{World, crm, delivering};
use crate::reports::count;

/// The roles of the README under names of their own, with exactly its rights.
struct Roles {
    app: String,
    relay: String,
}

impl Roles {
    async fn new(world: &World<PgTestDb>) -> Self {
        let unique = world.db.name();
        let roles = Self { app: format!("app_of_{unique}"), relay: format!("relay_of_{unique}") };
        let grants = block(&read("README.md"), "sql", "GRANT");
        let grants = grants
            .replace(" TO app, relay;", &format!(" TO {}, {};", roles.app, roles.relay))
            .replace(" TO app;", &format!(" TO {};", roles.app))
            .replace(" TO relay;", &format!(" TO {};", roles.relay));
        let setup = format!("CREATE ROLE {} LOGIN; CREATE ROLE {} LOGIN; {grants}", roles.app, roles.relay);
        roles.execute(world, &setup).await;
        roles
    }

    async fn execute(&self, world: &World<PgTestDb>, sql: &str) {
        PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), sql).await.unwrap();
    }

    async fn pool(&self, world: &World<PgTestDb>, role: &str) -> PgPool {
        PgPoolOptions::new().connect_with(world.db.options().username(role)).await.unwrap()
    }

    async fn gone(self, world: &World<PgTestDb>) {
        for role in [&self.app, &self.relay] {
            let sql = format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{role}'; \
                 DROP OWNED BY {role}; DROP ROLE {role}"
            );
            self.execute(world, &sql).await;
        }
    }
}

/// Publishing (also once per key), delivering with retries and dead letters, recording, deleting: each as its own role.
#[tokio::test]
async fn the_rights_in_the_readme_are_enough_for_a_relay_with_recorder_and_retention() {
    let world = World::<PgTestDb>::new().await;
    let roles = Roles::new(&world).await;
    let app = roles.pool(&world, &roles.app).await;
    let outbox = Outbox::new();
    let mut tx = outbox.begin(&app).await.unwrap();
    let mut last = 0;
    for n in 0..6 {
        last = outbox.publish_json(&mut tx, &crate::relay::changed("1", n)).await.unwrap().id;
    }
    outbox.publish_once(&mut tx, "key", &crate::readme::OrderPlaced { order_id: 7 }).await.unwrap();
    outbox.commit(tx).await.unwrap();

    let sink = RecordingSink::scripted(|call| match call.attempt {
        1 if call.id() % 2 == 0 => Outcome::Retry { error: "503".into(), after: None },
        _ if call.id() == 1 => Outcome::Reject { error: "no".into() },
        _ => Outcome::Delivered,
    });
    let mut settings = delivering(quick_settings());
    settings.retention = RetainFor::days(10).unwrap();
    let pool = roles.pool(&world, &roles.relay).await;
    let run = || {
        let relay = Relay::builder(pool.clone()).settings(settings.clone()).consumer(crm(), sink.clone());
        RunningRelay::start(relay.build().unwrap())
    };
    let running = run();
    world.settled("crm", last + 1).await;
    let recorded = "SELECT count(*) FROM outbox.event WHERE status <> 'pending'";
    eventually("everything is recorded", async || count(&world, recorded).await == 7).await;
    running.stop().await;

    let age = "UPDATE outbox.event SET created_at = created_at - interval '20 days', \
                   available_at = available_at - interval '20 days', \
                   dispatched_at = dispatched_at - interval '20 days'; \
               UPDATE outbox.dead_letter SET acknowledged_at = failed_at - interval '20 days', \
                   failed_at = failed_at - interval '20 days', decided_at = decided_at - interval '20 days'; \
               UPDATE outbox.duty SET due_at = now() WHERE name = 'retention'";
    roles.execute(&world, age).await;
    let running = run();
    let left = "SELECT (SELECT count(*) FROM outbox.event) + (SELECT count(*) FROM outbox.dead_letter) \
                + (SELECT count(*) FROM outbox.idempotency)";
    eventually("everything is deleted", async || count(&world, left).await == 0).await;
    running.stop().await;
    app.close().await;
    pool.close().await;
    roles.gone(&world).await;
}

/// The real binary under these roles, without one right: it says which, and what to do, as long as it is missing.
#[tokio::test]
async fn a_right_that_is_missing_is_named() {
    let world = World::<PgTestDb>::new().await;
    let roles = Roles::new(&world).await;
    roles.execute(&world, &format!("REVOKE ALL ON outbox.relay, outbox.duty FROM {}", roles.relay)).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("schemas")).unwrap();
    std::fs::write(folder.path().join("schemas/registry.toml"), "").unwrap();
    let url = world.db.url().replace("//postgres@", &format!("//{}@", roles.relay));
    assert!(url.contains(&roles.relay), "{url}");
    let text = format!(
        "[database]\nurl = \"{url}\"\n[registry]\nmissing = \"deliver\"\n[[consumer]]\nname = \"crm\"\n\
         [consumer.webhook]\nurl = \"http://127.0.0.1:9/\"\nsecrets = [\"env:SECRET\"]\n\
         allow_private_addresses = true\n"
    );
    let path = folder.path().join("outbox.toml");
    std::fs::write(&path, text).unwrap();
    let mut command = OutboxProcess::command();
    command.env("SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3");
    let mut relay = OutboxProcess::spawn(command.args(["run", "--config"]).arg(path));
    let names = |line: &str, table: &str| line.contains(table) && line.contains("the role lacks a right");
    let why = "why it does not start";
    let line = relay.wait_for_line(why, |line| line.contains("cannot start")).await;
    assert!(names(&line, "permission denied for table relay") && !line.contains("away"), "{line}");

    roles.execute(&world, &format!("GRANT ALL ON outbox.relay TO {}", roles.relay)).await;
    // Recorder or retention, and retention alone from the third failure on.
    relay
        .wait_for_line("which right a duty lacks", |line| names(line, "permission denied for table duty"))
        .await;
    let alarm = relay.wait_for_line("an alarm", |line| line.contains("fails again and again")).await;
    assert!(alarm.contains("ERROR") && names(&alarm, "table duty") && alarm.contains("retention"), "{alarm}");

    roles.execute(&world, &format!("GRANT SELECT, UPDATE ON outbox.duty TO {}", roles.relay)).await;
    let done = "SELECT count(*) FROM outbox.duty WHERE name = 'retention' AND succeeded_at IS NOT NULL";
    eventually("retention has run", async || count(&world, done).await == 1).await;
    relay.terminate().await;
    assert!(relay.wait_exit().await.success());
    roles.gone(&world).await;
}

/// Names that are not looked up where anybody may create: exact types would win over the server's own, polymorphic ones.
#[tokio::test]
async fn nobodys_function_runs_in_the_place_of_the_servers() {
    const TRAPS: &str = "CREATE TABLE public.loot (what text);
        CREATE FUNCTION public.lower(int8range) RETURNS int8 LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO public.loot VALUES ('lower'); RETURN pg_catalog.lower($1); END $$;
        CREATE FUNCTION public.upper(int8range) RETURNS int8 LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO public.loot VALUES ('upper'); RETURN pg_catalog.upper($1); END $$;
        CREATE FUNCTION public.isempty(int8multirange) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO public.loot VALUES ('isempty'); RETURN pg_catalog.isempty($1); END $$;
        CREATE FUNCTION public.unnest(int8[]) RETURNS SETOF int8 LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO public.loot VALUES ('unnest ids'); RETURN QUERY SELECT pg_catalog.unnest($1); END $$;
        CREATE FUNCTION public.unnest(uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO public.loot VALUES ('unnest uuids'); RETURN QUERY SELECT pg_catalog.unnest($1); END $$;
        CREATE FUNCTION public.unnest(int8multirange) RETURNS SETOF int8range LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO public.loot VALUES ('unnest ranges'); RETURN QUERY SELECT pg_catalog.unnest($1); END $$;
        CREATE FUNCTION public.times(int8, interval) RETURNS interval LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO public.loot VALUES ('times'); RETURN pg_catalog.interval_mul($2, $1::float8); END $$;
        CREATE OPERATOR public.* (LEFTARG = int8, RIGHTARG = interval, FUNCTION = public.times);
        CREATE FUNCTION public.within(int8multirange, int8) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO public.loot VALUES ('within'); RETURN pg_catalog.multirange_contains_elem($1, $2); END $$;
        CREATE OPERATOR public.@> (LEFTARG = int8multirange, RIGHTARG = int8, FUNCTION = public.within);
        CREATE FUNCTION public.less(int8multirange, int8multirange) RETURNS int8multirange LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO public.loot VALUES ('less'); RETURN pg_catalog.multirange_minus($1, $2); END $$;
        CREATE OPERATOR public.- (LEFTARG = int8multirange, RIGHTARG = int8multirange, FUNCTION = public.less);";
    let world = World::<PgTestDb>::new().await;
    PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), TRAPS).await.unwrap();
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    world.outbox.publish_json(&mut tx, &crate::relay::changed("1", 1)).await.unwrap();
    let delayed = world.outbox.delayed(std::time::Duration::from_millis(1));
    delayed.publish_json(&mut tx, &crate::relay::changed("1", 2)).await.unwrap();
    let orders = [7, 8].map(|order_id| crate::readme::OrderPlaced { order_id });
    world.outbox.publish_all(&mut tx, &orders).await.unwrap();
    world.outbox.publish_once(&mut tx, "key", &orders[0]).await.unwrap();
    world.outbox.commit(tx).await.unwrap();
    let sink = RecordingSink::scripted(|call| match call.attempt {
        1 => Outcome::Retry { error: "503".into(), after: None },
        _ if call.id() == 1 => Outcome::Reject { error: "no".into() },
        _ => Outcome::Delivered,
    });
    assert_eq!(world.drain(&sink).await, 5);
    let mut recorder = outbox_relay::maintenance::Recorder::new(world.pool.clone());
    recorder.run_once().await.unwrap();
    let mut retention = outbox_relay::maintenance::Retention::new(world.pool.clone());
    retention.run_once().await.unwrap();
    let loot: Vec<String> = sqlx::query_scalar("SELECT DISTINCT what FROM public.loot ORDER BY what")
        .fetch_all(&world.pool)
        .await
        .unwrap();
    assert_eq!(loot, [""; 0]);
}

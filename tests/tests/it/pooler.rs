//! Through a pooler in transaction mode that knows no prepared statements, with fewer sessions than clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outbox_relay::Relay;
use outbox_relay::sink::Outcome;
use outbox_relay::sink::handler::HandlerSink;
use outbox_sdk::{Envelope, Handler, HandlerError, Inbox, Migrator, Outbox, PublishError, Tables};
use outbox_tests::{
    Call, OutboxProcess, PgTestDb, Pooler, RecordingSink, RunningRelay, eventually, quick_settings,
};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Postgres, Transaction};

use crate::databases::TestDb as _;
use crate::relay::order::assert_in_order;
use crate::relay::{World, changed, crm, delivering, ids, named};

/// Counts its calls.
struct Counting(Arc<AtomicUsize>);

impl Handler<Postgres> for Counting {
    async fn handle(&self, _: &Envelope, tx: &mut Transaction<'_, Postgres>) -> Result<(), HandlerError> {
        PgTestDb::execute(tx, "INSERT INTO effect VALUES (1)").await?;
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

async fn pool(pooler: &Pooler, connections: u32) -> PgPool {
    PgPoolOptions::new().max_connections(connections).connect_with(pooler.options()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publish_relay_and_inbox_work_through_a_pooler_in_transaction_mode() {
    let mut world = World::<PgTestDb>::new().await;
    Migrator::inbox().run(&world.pool).await.unwrap();
    PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), "CREATE TABLE effect (n int)").await.unwrap();
    let pooler = Pooler::start(&world.db, 2).await;
    let tables = Tables::default().pooled();
    let direct = std::mem::replace(&mut world.pool, pool(&pooler, 8).await);
    world.outbox = Outbox::new().with_tables(tables.clone());

    let calls = Arc::new(AtomicUsize::new(0));
    let inbox = Inbox::new(world.pool.clone(), "effects").with_tables(tables.clone());
    let handler = Arc::new(HandlerSink::new(inbox, Counting(calls.clone())));
    let failing = RecordingSink::scripted(|call| match call {
        Call { attempt: 1, .. } if call.id() % 3 == 0 => Outcome::Retry { error: "503".into(), after: None },
        _ if call.id() % 20 == 0 => Outcome::Reject { error: "no".into() },
        _ => Outcome::Delivered,
    });
    let plain = RecordingSink::new();
    let relay = Relay::builder(pool(&pooler, 6).await)
        .tables(tables)
        .settings(delivering(quick_settings()))
        .consumer(named("effects"), handler)
        .consumer(named("failing"), failing.clone())
        .consumer(named("plain"), plain.clone());
    let relay = RunningRelay::start(relay.build().unwrap());
    let writer = async |lane: &str| {
        let mut published = Vec::new();
        for n in 0..40 {
            let mut tx = world.outbox.begin(&world.pool).await.unwrap();
            let event = world.outbox.publish_json(&mut tx, &changed(lane, n)).await.unwrap();
            if n % 4 == 0 {
                tx.rollback().await.unwrap();
            } else {
                world.outbox.commit(tx).await.unwrap();
                published.push(event);
            }
        }
        published
    };
    let (mut all, b, c, d) = tokio::join!(writer("a"), writer("b"), writer("c"), writer("d"));
    all.extend(b.into_iter().chain(c).chain(d));
    all.sort_unstable_by_key(|event| event.id);
    // What is asked in these waits is asked directly: it is not the pooler's business.
    world.pool = direct;
    for name in ["effects", "failing", "plain"] {
        world.settled(name, all[119].id).await;
    }
    relay.stop().await;
    for sink in [&failing, &plain] {
        assert_in_order(&sink.calls());
    }
    let mut delivered = plain.delivered();
    delivered.sort_unstable();
    assert_eq!(delivered, ids(&all), "each once");
    assert_eq!(failing.delivered().len() + world.dead().await.len(), 120);
    let effects = "SELECT count(*) FROM effect";
    assert_eq!(PgTestDb::count(&mut world.pool.acquire().await.unwrap(), effects).await, 120);
    assert_eq!(calls.load(Ordering::Relaxed), 120);
}

/// Without being told, a publisher hears what is in between, and so does the log of a relay.
#[tokio::test]
async fn a_pooler_that_nobody_told_of_is_named() {
    let world = World::<PgTestDb>::new().await;
    let pooler = Pooler::start(&world.db, 1).await;
    let mut told = false;
    for n in 0..4 {
        // Each a client of its own, and all on one session: the names of their statements collide.
        let mut tx = world.outbox.begin(&pool(&pooler, 1).await).await.unwrap();
        match world.outbox.publish_json(&mut tx, &changed("1", n)).await {
            Ok(_) => {}
            Err(PublishError::Pooler(_)) => told = true,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(told);
}

/// The real binary, once without and once with `pooled`.
#[tokio::test]
async fn the_binary_works_through_a_pooler_when_it_is_told() {
    let world = World::<PgTestDb>::new().await;
    let published = world.publish(&["1", "2"]).await;
    let pooler = Pooler::start(&world.db, 1).await;
    let receiver = outbox_tests::Receiver::start().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("schemas")).unwrap();
    std::fs::write(folder.path().join("schemas/registry.toml"), "compatibility = \"full\"\n").unwrap();
    let run = |pooled: bool| {
        let text = format!(
            "[database]\nurl = \"{}\"\npooled = {pooled}\n[registry]\nmissing = \"deliver\"\n[[consumer]]\nname = \"crm\"\n\
             [consumer.webhook]\nurl = \"{}\"\nsecrets = [\"env:SECRET\"]\n\
             allow_private_addresses = true\n",
            world.db.url_through(pooler.addr()),
            receiver.url(),
        );
        let path = folder.path().join("outbox.toml");
        std::fs::write(&path, text).unwrap();
        let mut command = OutboxProcess::command();
        command.env("SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3");
        OutboxProcess::spawn(command.args(["run", "--config"]).arg(path))
    };
    let untold = run(false);
    untold.wait_for_line("the setting that is missing", |line| line.contains("pooled = true")).await;
    drop(untold);
    assert!(receiver.requests().is_empty());

    let mut told = run(true);
    world.settled("crm", published[1].id).await;
    told.terminate().await;
    assert!(told.wait_exit().await.success());
    assert_eq!(receiver.requests().len(), 2);
    eventually("the slot is given back", async || world.consumer("crm").await.owner.is_none()).await;
    let sink = RecordingSink::new();
    assert_eq!(world.builder().consumer(crm(), sink).build().unwrap().run_once().await.unwrap_or(0), 0);
}

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// What becomes of one request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It passes, and so does its answer.
    Pass,
    /// The server gets it; the client hears nothing more on this connection, which stays open.
    HoldAnswer,
    /// Neither side hears anything more, on any connection, and none of them learns why.
    GoDark,
    /// The server never gets it, and the connection is cut.
    CutBefore,
    /// The server answers, and the connection is cut before the client hears it.
    CutAfter,
}

/// A TCP proxy in front of a PostgreSQL server. It understands where a request ends and what its statement says,
/// nothing else.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    wire: Arc<Wire>,
    closed: CancellationToken,
}

type Rule = dyn Fn(&str) -> Fate + Send + Sync;

struct Wire {
    upstream: SocketAddr,
    state: watch::Sender<State>,
    /// Ends every connection that is open now; then it is replaced.
    cut: Mutex<CancellationToken>,
    rule: Mutex<Arc<Rule>>,
    journal: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("upstream", &self.upstream).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// New connections are closed at once.
    refuses: bool,
    /// Nothing passes in either direction, not even the end of a connection.
    dark: bool,
    delay: Duration,
}

impl Proxy {
    /// Listens on a free loopback port and passes everything on to `upstream`.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let addr = listener.local_addr().expect("the port");
        let wire = Arc::new(Wire {
            upstream,
            state: watch::Sender::new(State::default()),
            cut: Mutex::default(),
            rule: Mutex::new(Arc::new(|_| Fate::Pass)),
            journal: Mutex::default(),
        });
        let closed = CancellationToken::new();
        let accepting = Arc::clone(&wire);
        tokio::spawn(closed.clone().run_until_cancelled_owned(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !accepting.state.borrow().refuses {
                    tokio::spawn(Arc::clone(&accepting).connection(client));
                }
            }
        }));
        Self { addr, wire, closed }
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Every chunk waits this long in each direction.
    pub fn delay(&self, delay: Duration) {
        self.wire.state.send_modify(|state| state.delay = delay);
    }

    /// From now on nothing passes, as when a network goes away; `false` lets everything go on.
    pub fn dark(&self, dark: bool) {
        self.wire.state.send_modify(|state| state.dark = dark);
    }

    /// From now on new connections are refused; `false` takes them again.
    pub fn refuse(&self, refuses: bool) {
        self.wire.state.send_modify(|state| state.refuses = refuses);
    }

    /// Cuts every connection that is open.
    pub fn cut(&self) {
        let old = std::mem::take(&mut *self.wire.cut.lock().expect("no panic while locked"));
        old.cancel();
    }

    /// Decides about each request from now on by its statement: of a prepared one the text that it was prepared from.
    pub fn rule(&self, rule: impl Fn(&str) -> Fate + Send + Sync + 'static) {
        *self.wire.rule.lock().expect("no panic while locked") = Arc::new(rule);
    }

    /// The statements of all requests so far.
    pub fn statements(&self) -> Vec<String> {
        self.wire.journal.lock().expect("no panic while locked").clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.closed.cancel();
        self.cut();
    }
}

/// What the two directions of a connection tell each other.
#[derive(Default)]
struct Line {
    held: watch::Sender<bool>,
    cut_at_answer: Mutex<bool>,
    answered: Notify,
}

impl Wire {
    async fn connection(self: Arc<Self>, client: TcpStream) {
        let cut = self.cut.lock().expect("no panic while locked").clone();
        let Ok(server) = TcpStream::connect(self.upstream).await else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let line = Line::default();
        let both = async {
            tokio::select! {
                _ = self.requests(from_client, to_server, &line) => {}
                _ = self.answers(from_server, to_client, &line) => {}
            }
            // In the dark nobody hears of the other side's end.
            let _ = self.state.subscribe().wait_for(|state| !state.dark).await;
        };
        cut.run_until_cancelled(both).await;
    }

    async fn passes(&self) {
        let delay = self.state.borrow().delay;
        if !delay.is_zero() {
            sleep(delay).await;
        }
        let _ = self.state.subscribe().wait_for(|state| !state.dark).await;
    }

    async fn answers(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, line: &Line) -> io::Result<()> {
        let mut chunk = vec![0; 64 * 1024];
        loop {
            let length = from.read(&mut chunk).await?;
            if length == 0 {
                return Ok(());
            }
            if *line.cut_at_answer.lock().expect("no panic while locked") {
                line.answered.notify_one();
                return Ok(());
            }
            self.passes().await;
            let _ = line.held.subscribe().wait_for(|held| !held).await;
            to.write_all(&chunk[..length]).await?;
        }
    }

    async fn requests(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, line: &Line) -> io::Result<()> {
        start_up(&mut from, &mut to).await?;
        let mut prepared = HashMap::<Vec<u8>, String>::new();
        let mut request = Vec::new();
        let mut statement = String::new();
        loop {
            let kind = from.read_u8().await?;
            let length = from.read_u32().await?;
            let mut body = vec![0; (length as usize).saturating_sub(4)];
            from.read_exact(&mut body).await?;
            request.push(kind);
            request.extend(length.to_be_bytes());
            request.extend(&body);
            let mut words = body.split(|byte| *byte == 0);
            let mut word = || words.next().unwrap_or_default().to_vec();
            match kind {
                b'Q' => statement = String::from_utf8_lossy(&word()).into_owned(),
                b'P' => {
                    let (name, text) = (word(), String::from_utf8_lossy(&word()).into_owned());
                    statement.clone_from(&text);
                    prepared.insert(name, text);
                }
                b'B' => {
                    let (_portal, name) = (word(), word());
                    statement = prepared.get(&name).cloned().unwrap_or_default();
                }
                _ => {}
            }
            if !matches!(kind, b'Q' | b'S' | b'X') {
                continue;
            }
            let fate = self.decide(&statement);
            statement.clear();
            if fate == Fate::GoDark {
                self.state.send_modify(|state| state.dark = true);
            }
            self.passes().await;
            match fate {
                Fate::Pass | Fate::GoDark => {}
                Fate::HoldAnswer => drop(line.held.send_replace(true)),
                Fate::CutBefore => return Ok(()),
                Fate::CutAfter => *line.cut_at_answer.lock().expect("no panic while locked") = true,
            }
            to.write_all(&request).await?;
            request.clear();
            if fate == Fate::CutAfter {
                line.answered.notified().await;
                return Ok(());
            }
        }
    }

    fn decide(&self, statement: &str) -> Fate {
        if statement.is_empty() {
            return Fate::Pass;
        }
        self.journal.lock().expect("no panic while locked").push(statement.to_owned());
        let rule = Arc::clone(&self.rule.lock().expect("no panic while locked"));
        rule(statement)
    }
}

/// Passes on what comes before the first request: it has no type, and there may be two of them (the first asks for TLS).
async fn start_up(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) -> io::Result<()> {
    const ASKS_FOR_TLS: u32 = 80_877_103;
    loop {
        let length = from.read_u32().await?;
        let mut body = vec![0; (length as usize).saturating_sub(4)];
        from.read_exact(&mut body).await?;
        to.write_all(&length.to_be_bytes()).await?;
        to.write_all(&body).await?;
        if body != ASKS_FOR_TLS.to_be_bytes() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection as _, PgConnection};

    use super::*;
    use crate::PgTestDb;

    async fn connect(db: &PgTestDb, proxy: &Proxy) -> sqlx::Result<PgConnection> {
        PgConnection::connect_with(&db.through(proxy)).await
    }

    #[tokio::test]
    async fn each_fate_is_what_it_says() {
        let db = PgTestDb::new().await;
        let proxy = Proxy::start(db.server_addr()).await;
        let mut plain = PgConnection::connect_with(&db.options()).await.unwrap();
        sqlx::raw_sql("CREATE TABLE seen (n int)").execute(&mut plain).await.unwrap();
        let fates = [
            (Fate::Pass, 1),
            (Fate::CutBefore, 0),
            (Fate::CutAfter, 1),
            (Fate::HoldAnswer, 1),
            (Fate::GoDark, 0),
        ];
        for (fate, arrives) in fates {
            proxy.rule(move |sql| if sql.starts_with("INSERT") { fate } else { Fate::Pass });
            let mut conn = connect(&db, &proxy).await.unwrap();
            let insert = sqlx::raw_sql("INSERT INTO seen VALUES (1)").execute(&mut conn);
            match fate {
                Fate::Pass => drop(insert.await.unwrap()),
                Fate::CutBefore | Fate::CutAfter => drop(insert.await.unwrap_err()),
                Fate::HoldAnswer | Fate::GoDark => {
                    tokio::time::timeout(Duration::from_millis(200), insert).await.unwrap_err();
                }
            }
            crate::eventually("the rows are as expected", async || {
                let sql = "SELECT count(*) FROM seen";
                sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut plain).await.unwrap() == arrives
            })
            .await;
            sqlx::raw_sql("TRUNCATE seen").execute(&mut plain).await.unwrap();
        }
        // What was in the dark arrives when it ends, if its client has not gone: this one has.
        proxy.dark(false);
        assert!(proxy.statements().iter().any(|sql| sql.starts_with("INSERT")));
        proxy.refuse(true);
        assert!(connect(&db, &proxy).await.is_err());
    }
}

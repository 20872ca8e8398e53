//! Names that change what they lead to.

use std::net::{IpAddr, Ipv4Addr};

use super::*;

const ALLOWED: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const TRAP: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Answers the n-th question with the n-th list, and with the last one from then on.
struct Script {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Script {
    fn new(answers: &[&[IpAddr]]) -> Arc<Self> {
        let answers = answers.iter().map(|list| list.to_vec()).collect();
        Arc::new(Self { answers, asked: AtomicUsize::new(0) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Lookup for Script {
    fn lookup(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let n = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        let addresses = self.answers[n].iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
        Box::pin(async move { Ok(addresses) })
    }
}

/// A receiver at the allowed address, and a trap at the same port of the other one.
fn receiver_and_trap(answer: &'static [u8]) -> (u16, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((ALLOWED, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let trap = TcpListener::bind((TRAP, port)).unwrap();
    let (connections, trapped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counter, trap_counter) = (Arc::clone(&connections), Arc::clone(&trapped));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            counter.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || {
                let (mut request, mut piece) = (Vec::new(), [0; 4096]);
                while let Ok(read @ 1..) = stream.read(&mut piece) {
                    request.extend_from_slice(&piece[..read]);
                    if request.ends_with(b"}}") {
                        request.clear();
                        let _ = stream.write_all(answer);
                    }
                }
            });
        }
    });
    thread::spawn(move || {
        for _ in trap.incoming() {
            trap_counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, connections, trapped)
}

fn named(port: u16, lookup: Arc<Script>) -> WebhookSink {
    let mut config = config(format!("http://crm.example:{port}/"));
    config.allow_private_addresses = false;
    config.allow_networks = vec!["127.0.0.2".parse().unwrap()];
    WebhookSink::with_lookup(config, lookup).unwrap()
}

#[tokio::test]
async fn a_name_that_is_led_elsewhere_after_it_was_checked_gains_nothing() {
    let (port, connections, trapped) =
        receiver_and_trap(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
    let lookup = Script::new(&[&[ALLOWED], &[TRAP]]);
    let sink = named(port, Arc::clone(&lookup));
    assert_eq!(deliver(&sink, &event()).await, Outcome::Delivered);
    let Outcome::Unavailable { error, .. } = deliver(&sink, &event()).await else { panic!("dialled") };
    assert!(error.contains("no public address"), "{error}");
    assert_eq!(
        (lookup.asked(), connections.load(Ordering::SeqCst), trapped.load(Ordering::SeqCst)),
        (2, 1, 0)
    );
}

#[tokio::test]
async fn of_a_mixed_answer_only_what_is_allowed_is_dialled() {
    let (port, _, trapped) = receiver_and_trap(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
    let sink = named(port, Script::new(&[&[TRAP, ALLOWED, TRAP]]));
    for _ in 0..3 {
        assert_eq!(deliver(&sink, &event()).await, Outcome::Delivered);
    }
    assert_eq!(trapped.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_busy_connection_does_not_outlive_what_its_name_says_by_more_than_a_minute() {
    let (port, connections, _) = receiver_and_trap(b"HTTP/1.1 204 No Content\r\n\r\n");
    let lookup = Script::new(&[&[ALLOWED]]);
    let sink = named(port, Arc::clone(&lookup));
    let made = Instant::now();
    for (seconds, asked) in [(0, 1), (50, 1), (58, 2), (60, 2), (114, 3)] {
        sink.keeper.look(made + Duration::from_secs(seconds));
        assert_eq!(deliver(&sink, &event()).await, Outcome::Delivered);
        assert_eq!((lookup.asked(), connections.load(Ordering::SeqCst)), (asked, asked), "after {seconds} s");
    }
}

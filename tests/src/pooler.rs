use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;

use crate::{PgTestDb, eventually};

/// A PgBouncer in transaction mode in front of one test's database. Dropping it ends it.
#[derive(Debug)]
pub struct Pooler {
    child: Child,
    addr: SocketAddr,
    options: PgConnectOptions,
    _folder: TempDir,
}

impl Pooler {
    /// Starts it with this many sessions of the server.
    ///
    /// # Panics
    /// When `pgbouncer` is not installed, or does not start.
    pub async fn start(db: &PgTestDb, sessions: u32) -> Self {
        // Somebody else may take the port before the pooler has it; then the whole test fails, and says so.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let addr = free.expect("a free port");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let server = db.server_addr();
        let text = format!(
            "[databases]\n{name} = host={host} port={port} dbname={name} user={user}\n\
             [pgbouncer]\nlisten_addr = {ip}\nlisten_port = {own}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = {sessions}\nmax_client_conn = 200\n",
            name = db.name(),
            host = server.ip(),
            port = server.port(),
            user = db.options().get_username(),
            ip = addr.ip(),
            own = addr.port(),
        );
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(&file, text).expect("write its configuration");
        let mut command = Command::new(program());
        if std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
            // It refuses to run as root.
            std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755))
                .expect("open the folder");
            command.args(["-u", "nobody"]);
        }
        let child = command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("start pgbouncer: run ./scripts/test, which installs it");
        let options = db.options().host(&addr.ip().to_string()).port(addr.port());
        // It refuses settings that it does not know.
        let options = options.extra_float_digits(None);
        let pooler = Self { child, addr, options, _folder: folder };
        eventually("the pooler listens", async || match PgConnection::connect_with(&pooler.options).await {
            Ok(conn) => conn.close().await.is_ok(),
            Err(_) => false,
        })
        .await;
        pooler
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How to connect through it.
    pub fn options(&self) -> PgConnectOptions {
        self.options.clone()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Debian keeps it where the path of a plain user does not lead.
fn program() -> PathBuf {
    let debian = PathBuf::from("/usr/sbin/pgbouncer");
    if debian.exists() { debian } else { PathBuf::from("pgbouncer") }
}

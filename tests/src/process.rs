use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::PATIENCE;

/// The real binary `outbox` as a child process. Dropping it kills it.
#[derive(Debug)]
pub struct OutboxProcess {
    child: Child,
    stdout: Arc<Lines>,
    stderr: Arc<Lines>,
}

impl OutboxProcess {
    /// The binary that belongs to the running test: `target/<profile>/outbox`, without the variables of the
    /// surrounding environment that would change what it does. Add arguments and variables, then
    /// [`OutboxProcess::spawn`] it.
    ///
    /// # Panics
    /// When the binary is not built; the text says how to build it.
    pub fn command() -> Command {
        let mut command = Command::new(binary());
        command.env_remove("DATABASE_URL").env_remove("RUST_LOG");
        command
    }

    /// Starts the binary with these arguments.
    ///
    /// # Panics
    /// When it is not built or does not start.
    pub fn start<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Self {
        Self::spawn(Self::command().args(args))
    }

    /// Starts a prepared command.
    ///
    /// # Panics
    /// When it does not start.
    pub fn spawn(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("start the binary `outbox`");
        let stdout = Lines::collect(child.stdout.take().expect("a piped stdout"));
        let stderr = Lines::collect(child.stderr.take().expect("a piped stderr"));
        Self { child, stdout, stderr }
    }

    /// The lines it has printed to standard output.
    pub fn stdout(&self) -> Vec<String> {
        self.stdout.all()
    }

    /// The lines it has logged to standard error.
    pub fn stderr(&self) -> Vec<String> {
        self.stderr.all()
    }

    /// The most memory that it has held so far, in kilobytes.
    ///
    /// # Panics
    /// When it has ended.
    #[cfg(target_os = "linux")]
    pub fn peak_memory_kb(&self) -> u64 {
        let id = self.child.id().expect("a running process");
        let status =
            std::fs::read_to_string(format!("/proc/{id}/status")).expect("the kernel's account of it");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// The processor time that it has used so far, in hundredths of a second.
    ///
    /// # Panics
    /// When it has ended.
    #[cfg(target_os = "linux")]
    pub fn cpu_ticks(&self) -> u64 {
        let id = self.child.id().expect("a running process");
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("the kernel's account of it");
        // Behind the name, which may hold anything, the 12th and 13th field: in user and in kernel mode.
        let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
        fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    }

    /// Waits for a line on standard error, one logged before the call too, and gives out the first that fits.
    ///
    /// # Panics
    /// When the process ends without it, or after [`PATIENCE`]; the text holds all lines.
    pub async fn wait_for_line(&self, what: &str, fits: impl FnMut(&str) -> bool) -> String {
        let found = timeout(PATIENCE, self.stderr.first(fits)).await;
        found.ok().flatten().unwrap_or_else(|| {
            panic!("`outbox` did not log {what}; its standard error:\n{}", self.stderr().join("\n"))
        })
    }

    /// Kills it on the spot (SIGKILL), as a crash would, and waits until it is gone.
    ///
    /// # Panics
    /// When the signal cannot be sent.
    pub async fn kill9(&mut self) {
        self.child.kill().await.expect("kill the binary `outbox`");
    }

    /// Asks it to end as a service manager does (SIGTERM).
    ///
    /// # Panics
    /// When it has ended already or the signal cannot be sent.
    pub async fn terminate(&self) {
        self.signal("TERM").await;
    }

    /// Asks it to end as Ctrl-C does (SIGINT).
    ///
    /// # Panics
    /// When it has ended already or the signal cannot be sent.
    pub async fn interrupt(&self) {
        self.signal("INT").await;
    }

    /// Stops it where it is (SIGSTOP), as a machine does that runs out of time or memory, until [`thaw`](Self::thaw).
    ///
    /// # Panics
    /// When it has ended already or the signal cannot be sent.
    pub async fn freeze(&self) {
        self.signal("STOP").await;
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Panics
    /// When it has ended already or the signal cannot be sent.
    pub async fn thaw(&self) {
        self.signal("CONT").await;
    }

    /// Waits until it has ended and all it printed is read.
    ///
    /// # Panics
    /// When it still runs after [`PATIENCE`]; the text holds its standard error.
    pub async fn wait_exit(&mut self) -> ExitStatus {
        let ended = async {
            let status = self.child.wait().await.expect("wait for the binary `outbox`");
            self.stdout.closed().await;
            self.stderr.closed().await;
            status
        };
        timeout(PATIENCE, ended).await.unwrap_or_else(|_| {
            panic!("`outbox` still runs; its standard error:\n{}", self.stderr().join("\n"))
        })
    }

    /// Sends SIGHUP.
    ///
    /// # Panics
    /// When it has ended already or the signal cannot be sent.
    pub async fn hang_up(&self) {
        self.signal("HUP").await;
    }

    // The shell's own `kill`: no package has to be there for it, and no unsafe code.
    async fn signal(&self, name: &str) {
        let pid = self.child.id().expect("a running process").to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$1\" \"$2\"", "sh", name, &pid]).status().await;
        assert!(sent.expect("run sh").success(), "SIG{name} did not reach process {pid}");
    }
}

/// Test executables lie in `target/<profile>/deps`, binaries one folder up.
fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the running test");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("a test inside a target folder");
    let binary = profile.join(format!("outbox{}", std::env::consts::EXE_SUFFIX));
    assert!(binary.is_file(), "no binary at {}: run `cargo build --bin outbox`", binary.display());
    binary
}

#[derive(Debug, Default)]
struct Lines {
    read: Mutex<Read>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Read {
    lines: Vec<String>,
    closed: bool,
}

impl Lines {
    fn collect(stream: impl AsyncRead + Unpin + Send + 'static) -> Arc<Self> {
        let lines = Arc::new(Self::default());
        let collected = Arc::clone(&lines);
        tokio::spawn(async move {
            let mut stream = BufReader::new(stream).lines();
            while let Ok(Some(line)) = stream.next_line().await {
                collected.change(|read| read.lines.push(line));
            }
            collected.change(|read| read.closed = true);
        });
        lines
    }

    fn change(&self, change: impl FnOnce(&mut Read)) {
        change(&mut self.read.lock().expect("no panic under this lock"));
        self.changed.notify_waiters();
    }

    fn all(&self) -> Vec<String> {
        self.read.lock().expect("no panic under this lock").lines.clone()
    }

    /// The first line that fits, or none when the stream has closed without it.
    async fn first(&self, mut fits: impl FnMut(&str) -> bool) -> Option<String> {
        let mut seen = 0;
        loop {
            // Registered before the look at the lines, so a change after the look wakes it.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let (new, closed) = {
                let read = self.read.lock().expect("no panic under this lock");
                (read.lines[seen..].to_vec(), read.closed)
            };
            seen += new.len();
            if let Some(line) = new.into_iter().find(|line| fits(line)) {
                return Some(line);
            }
            if closed {
                return None;
            }
            changed.await;
        }
    }

    async fn closed(&self) {
        self.first(|_| false).await;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn script(text: &str) -> OutboxProcess {
        OutboxProcess::spawn(Command::new("sh").args(["-c", text]))
    }

    #[tokio::test]
    async fn it_hears_both_streams_and_the_status() {
        let mut process = script("echo out; echo one >&2; echo two >&2; exit 3");
        assert_eq!(process.wait_for_line("a line with w", |line| line.contains('w')).await, "two");
        assert_eq!(process.wait_exit().await.code(), Some(3));
        assert_eq!(
            (process.stdout(), process.stderr()),
            (vec!["out".into()], vec!["one".into(), "two".into()])
        );
    }

    #[tokio::test]
    #[should_panic(expected = "did not log ready; its standard error:\ngiving up")]
    async fn a_process_that_ends_without_the_line_fails_at_once() {
        script("echo giving up >&2").wait_for_line("ready", |line| line == "ready").await;
    }

    #[tokio::test]
    async fn it_is_asked_to_end() {
        // Not INT: a shell cannot catch what was ignored when it began, as by whoever runs the tests in the background.
        let mut process = script("trap 'echo TERM; exit 0' TERM; echo ready >&2; while :; do :; done");
        process.wait_for_line("ready", |line| line == "ready").await;
        process.terminate().await;
        assert!(process.wait_exit().await.success());
        assert_eq!(process.stdout(), ["TERM"]);
    }

    #[tokio::test]
    async fn it_is_killed_without_being_asked() {
        let mut process = script("echo ready >&2; while :; do :; done");
        process.wait_for_line("ready", |line| line == "ready").await;
        process.kill9().await;
        assert_eq!(process.wait_exit().await.signal(), Some(9));
    }
}

//! Why a command failed, and the exit code that says so.

use std::fmt;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use outbox_relay::chain;
use outbox_relay::config::ConfigError;
use outbox_relay::operate::OperateError;

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// A check did not hold.
    pub(crate) fn check(text: impl Into<String>) -> Self {
        Self { code: 1, text: text.into() }
    }

    /// The arguments or the configuration cannot be used.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { code: 2, text: text.into() }
    }

    /// The database or the network failed.
    pub(crate) fn database(text: impl Into<String>) -> Self {
        Self { code: 3, text: text.into() }
    }

    /// Everything that is wrong at once, instead of the first thing only.
    pub(crate) fn all<A, B, C>(
        a: Result<A, Self>,
        b: Result<B, Self>,
        c: Result<C, Self>,
    ) -> Result<(A, B, C), Self> {
        match (a, b, c) {
            (Ok(a), Ok(b), Ok(c)) => Ok((a, b, c)),
            (a, b, c) => {
                let failures = [a.err(), b.err(), c.err()].into_iter().flatten();
                let texts: Vec<String> = failures.map(|failure| failure.text.trim_end().to_owned()).collect();
                Err(Self::usage(texts.join("\n\n")))
            }
        }
    }

    /// The operating system gave no threads.
    pub(crate) fn runtime(error: &std::io::Error) -> Self {
        Self { code: 3, text: format!("cannot start the runtime: {error}; raise the limits of this process") }
    }

    /// Prints the text and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("{}", self.text.trim_end());
        ExitCode::from(self.code)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::usage(error.render(std::io::stderr().is_terminal()))
    }
}

impl From<OperateError> for Failure {
    fn from(error: OperateError) -> Self {
        let text = format!("error: {}", chain(&error));
        if error.is_not_found() { Self::check(text) } else { Self::database(text) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

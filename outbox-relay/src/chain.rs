//! Errors for people: what failed, and why.

use std::error::Error;
use std::fmt::Write as _;

/// An error and what caused it, each said once, separated by colons.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            // Writing to a String cannot fail.
            let _ = write!(text, ": {part}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot start")]
    struct Outer(#[source] io::Error);

    #[test]
    fn each_cause_is_said_once() {
        assert_eq!(chain(&Outer(io::Error::other("no disk"))), "cannot start: no disk");
        assert_eq!(chain(&Outer(io::Error::other("start"))), "cannot start");
    }
}

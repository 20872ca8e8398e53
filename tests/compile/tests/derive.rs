//! What the derive says to whoever gets it wrong, and that it takes what is right. One case per file.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::io::Write as _;
use std::process::Command;

#[test]
fn correct_input_compiles() {
    trybuild::TestCases::new().pass("tests/ui/pass/*.rs");
}

#[test]
fn mistakes_get_our_words() {
    building().compile_fail("tests/ui/ours/*/*.rs");
}

/// These texts are partly rustc's, so they hold for one compiler; with another one the test says that it was left out.
/// To move on: raise the version, bless with `TRYBUILD=overwrite`, read the difference.
#[test]
fn mistakes_that_the_types_show() {
    const WORDED_BY: &str = "rustc 1.95.";
    let version = Command::new("rustc").arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(WORDED_BY) {
        // Not `eprintln`, which the harness shows for failing tests only.
        let said = format!("left out: tests/ui/rustc, worded by {WORDED_BY}x; this is {version}");
        return std::io::stderr().write_all(said.as_bytes()).unwrap();
    }
    building().compile_fail("tests/ui/rustc/*.rs");
}

/// A case that compiles makes trybuild build instead of check: without that, no generic constant is evaluated, and the
/// dependencies are compiled twice.
fn building() -> trybuild::TestCases {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/lifetimes.rs");
    cases
}

//! The real binary `outbox`, from outside: processes, signals, files, HTTP.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by a panic")]

mod abort;
mod away;
mod codegen;
mod command;
mod compact;
mod consumers;
mod frozen;
mod hangup;
#[cfg(target_os = "linux")]
mod idle;
mod kill;
mod many;
mod operate;
mod pins;
mod real_input;
mod schema;
mod secrets;
mod stage;
mod stop;

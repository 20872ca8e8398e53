//! `outbox schema bless`: the generated tests of the structs here, told to accept.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use outbox_schema::Registry;
use serde_json::json;
use tokio::process::Command;

use super::folder::{Folder, VARIABLE};
use crate::OutputFormat;
use crate::exit::Failure;
use crate::output;

/// Arguments of `outbox schema bless`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  outbox schema bless\n  outbox schema bless -- -p crm --all-features")]
pub(crate) struct Args {
    /// More arguments for `cargo test`, such as -p PACKAGE.
    #[arg(last = true, value_name = "ARGUMENTS")]
    cargo: Vec<String>,
}

/// What the names of all generated tests begin with.
const TESTS: &str = "outbox_schema_";

pub(super) async fn bless(folder: &Folder, args: &Args, format: OutputFormat) -> Result<(), Failure> {
    if std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "0" && ci != "false") {
        return Err(Failure::check(
            "error: what CI accepts nobody has seen; run `outbox schema bless` on your machine and commit the files",
        ));
    }
    let before = folder.open(None)?;
    // Tests run in the folders of their crates.
    let root = std::path::absolute(before.root()).map_err(|error| {
        Failure::usage(format!("error: {}: {error}; name another --registry", before.root().display()))
    })?;
    // Cargo says which one runs a command of its own; else the one in PATH.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let ended = Command::new(&cargo)
        .arg("test")
        .arg("--tests")
        .args(&args.cargo)
        .arg(TESTS)
        .env("OUTBOX_BLESS", "1")
        .env(VARIABLE, &root)
        .stdin(Stdio::null())
        // Standard output is for the result.
        .stdout(std::io::stderr())
        .status()
        .await
        .map_err(|error| {
            Failure::usage(format!(
                "error: cargo cannot be run: {error}; install Rust, or put cargo into PATH"
            ))
        })?;
    let after = Registry::open(before.root()).map_err(|error| Failure::usage(format!("error: {error}")))?;
    let [old, new] = [&before, &after].map(texts);
    let changed: Vec<(&str, &PathBuf)> = new
        .iter()
        .filter(|(path, text)| old.get(*path) != Some(text))
        .map(|(path, _)| (if old.contains_key(path) { "rewritten" } else { "created" }, path))
        .collect();
    let text = || {
        let lines: Vec<_> = changed.iter().map(|(word, path)| format!("{word} {}", path.display())).collect();
        if lines.is_empty() { "nothing to accept".to_owned() } else { lines.join("\n") }
    };
    let value = || {
        let entry =
            |(word, path): &(&str, &PathBuf)| json!({"outcome": word, "path": path.display().to_string()});
        json!({"changed": changed.iter().map(entry).collect::<Vec<_>>(), "passed": ended.success()})
    };
    output::result(format, text, value)?;
    if ended.success() {
        return Ok(());
    }
    Err(Failure::check("error: not every schema was accepted; the tests above say why and what to do"))
}

/// What each file holds, words included.
fn texts(registry: &Registry) -> BTreeMap<PathBuf, serde_json::Value> {
    registry.files().map(|file| (file.path.clone(), file.schema.clone())).collect()
}

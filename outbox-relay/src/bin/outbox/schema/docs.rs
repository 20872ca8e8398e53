//! `outbox schema docs`: one Markdown page per event type.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use outbox_schema::docs::{MARK, pages};
use serde_json::json;

use super::folder::Folder;
use super::readers;
use crate::OutputFormat;
use crate::exit::Failure;
use crate::output;

/// Arguments of `outbox schema docs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of the pages. Pages of event types that are gone are removed from it.
    #[arg(long, value_name = "DIR", default_value = "docs/events")]
    output: PathBuf,
    /// Write nothing; exit 1 if a page is missing, different or of an event type that is gone.
    #[arg(long)]
    check: bool,
    /// The configuration file, to show who reads what.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(super) fn docs(folder: &Folder, args: &Args, format: OutputFormat) -> Result<(), Failure> {
    let config = readers::config(args.config.as_deref())?;
    let registry = folder.open(config.as_ref())?;
    let pages = pages(&registry, |event_type| config.as_ref().map(|config| readers::of(config, event_type)));
    let made: BTreeMap<String, String> = pages.into_iter().map(|page| (page.file_name, page.text)).collect();
    let there = ours(&args.output)?;

    let stale: Vec<&String> =
        made.iter().filter(|(name, text)| there.get(*name) != Some(text)).map(|(name, _)| name).collect();
    let gone: Vec<&String> = there.keys().filter(|name| !made.contains_key(*name)).collect();
    if !args.check {
        fs::create_dir_all(&args.output).map_err(|error| failed(&args.output, &error))?;
        for name in &stale {
            let path = args.output.join(name);
            refuse_foreign(&path)?;
            fs::write(&path, &made[*name]).map_err(|error| failed(&path, &error))?;
        }
        for name in &gone {
            let path = args.output.join(name);
            fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
        }
    }
    let (write, remove) = if args.check { ("stale", "of no event type") } else { ("wrote", "removed") };
    let text = || {
        let lines = stale.iter().map(|name| format!("{write}: {name}"));
        let lines: Vec<String> = lines.chain(gone.iter().map(|name| format!("{remove}: {name}"))).collect();
        if lines.is_empty() { format!("{} pages are up to date", made.len()) } else { lines.join("\n") }
    };
    output::result(format, text, || json!({"check": args.check, "stale": stale, "gone": gone}))?;
    if args.check && !(stale.is_empty() && gone.is_empty()) {
        return Err(Failure::check(
            "error: the pages are not those of the registry; run `outbox schema docs`",
        ));
    }
    Ok(())
}

/// The pages in the folder that we made, by name.
fn ours(folder: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(failed(folder, &error)),
    };
    let mut pages = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed(folder, &error))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !name.ends_with(".md") {
            continue;
        }
        // What is no text is no page of ours.
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        if text.starts_with(MARK) {
            pages.insert(name, text);
        }
    }
    Ok(pages)
}

/// A file that somebody wrote is not replaced.
fn refuse_foreign(path: &Path) -> Result<(), Failure> {
    match fs::read_to_string(path) {
        Ok(text) if !text.starts_with(MARK) => Err(Failure::usage(format!(
            "error: {} was not made by this command; move it, or name another --output",
            path.display()
        ))),
        _ => Ok(()),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!(
        "error: {}: {error}; check its permissions, or name another --output",
        path.display()
    ))
}

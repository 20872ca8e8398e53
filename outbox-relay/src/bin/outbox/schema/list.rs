//! `outbox schema list`: event types, majors, minors, fingerprints, readers.

use std::path::PathBuf;

use outbox_relay::config::Config;
use outbox_schema::docs::Reader;
use outbox_schema::{Registry, SchemaFile};
use serde_json::{Value, json};

use super::folder::Folder;
use super::readers;
use crate::OutputFormat;
use crate::exit::Failure;
use crate::output::{self, Table};

/// Arguments of `outbox schema list`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show which consumers of the configuration read which major.
    #[arg(long)]
    consumers: bool,
    /// The configuration file. Default with --consumers: outbox.toml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(super) fn list(folder: &Folder, args: &Args, format: OutputFormat) -> Result<(), Failure> {
    let config = if args.consumers {
        Some(readers::config_or_default(args.config.as_deref())?)
    } else {
        readers::config(args.config.as_deref())?
    };
    let registry = folder.open(config.as_ref())?;
    let readers = config.as_ref().filter(|_| args.consumers);
    output::result(format, || text(&registry, readers), || value(&registry, readers))
}

fn text(registry: &Registry, config: Option<&Config>) -> String {
    if registry.files().next().is_none() {
        return format!("no schemas in {}", registry.root().display());
    }
    let (mut plain, mut read) = (
        Table::new(["TYPE", "VERSION", "PUBLISHED", "FINGERPRINT"]),
        Table::new(["TYPE", "VERSION", "PUBLISHED", "READ BY"]),
    );
    for file in registry.files() {
        let removed = registry.tombstone(file.event_type.as_str());
        let published = removed.map_or_else(|| "yes".to_owned(), |stone| format!("until {}", stone.date));
        let row = [file.event_type.to_string(), format!("v{}.{}", file.major, file.minor), published];
        let [event_type, version, published] = row;
        match config {
            None => plain.row([event_type, version, published, file.fingerprint.to_string()]),
            Some(config) => read.row([event_type, version, published, names(registry, config, file)]),
        }
    }
    if config.is_some() { read.render() } else { plain.render() }
}

/// Who reads a file: a consumer reads the newest minor of its major.
fn names(registry: &Registry, config: &Config, file: &SchemaFile) -> String {
    let name = |reader: Reader| match reader.major {
        Some(_) => format!("{} (pinned)", reader.consumer),
        None => reader.consumer,
    };
    readers_of(registry, config, file).into_iter().map(name).collect::<Vec<_>>().join(", ")
}

fn readers_of(registry: &Registry, config: &Config, file: &SchemaFile) -> Vec<Reader> {
    let newest = registry.newest(file.event_type.as_str(), file.major);
    if newest.is_none_or(|newest| newest.minor != file.minor) {
        return Vec::new();
    }
    let readers = readers::of(config, file.event_type.as_str()).into_iter();
    readers.filter(|reader| reader.major.is_none_or(|major| major == file.major)).collect()
}

fn value(registry: &Registry, config: Option<&Config>) -> Value {
    let files = registry.files().map(|file| {
        let mut value = json!({
            "event_type": file.event_type.as_str(),
            "major": file.major,
            "minor": file.minor,
            "path": file.path.display().to_string(),
            "fingerprint": file.fingerprint.to_string(),
            "removed": registry.tombstone(file.event_type.as_str()).map(|stone| &stone.date),
        });
        if let Some(config) = config {
            let readers = readers_of(registry, config, file).into_iter();
            value["consumers"] = readers
                .map(|reader| json!({"consumer": reader.consumer, "pinned": reader.major.is_some()}))
                .collect();
        }
        value
    });
    json!({
        "registry": registry.root().display().to_string(),
        "digest": registry.digest().to_string(),
        "schemas": files.collect::<Vec<_>>(),
    })
}

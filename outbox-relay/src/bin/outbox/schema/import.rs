//! `outbox schema import`: a foreign schema as a file of the registry.

use std::path::PathBuf;

use outbox_schema::bless::{self, BlessError, Blessed};
use outbox_schema::drift::Claim;
use outbox_schema::import::import as import_schema;
use outbox_schema::parse_schema;
use serde_json::json;

use super::folder::Folder;
use crate::OutputFormat;
use crate::exit::Failure;
use crate::output;

/// Arguments of `outbox schema import`.
#[derive(Debug, clap::Args)]
// `--version` is the major here.
#[command(disable_version_flag = true)]
pub(crate) struct Args {
    /// A JSON Schema of draft-07 or 2020-12.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The event type that it becomes.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: String,
    /// The major.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    version: u32,
    /// Where in the file the schema is, such as /definitions/order. What it refers to comes along.
    #[arg(long, value_name = "POINTER", default_value = "")]
    pointer: String,
}

pub(super) fn import(folder: &Folder, args: &Args, format: OutputFormat) -> Result<(), Failure> {
    let name = args.file.display().to_string();
    let text = std::fs::read(&args.file).map_err(|error| {
        Failure::usage(format!("error: {name} cannot be read: {error}; name a file with a JSON Schema"))
    })?;
    let foreign =
        parse_schema(&text).map_err(|problem| Failure::usage(format!("error: {name}: {problem}")))?;
    let imported = import_schema(&foreign, &args.pointer)
        .map_err(|error| Failure::check(format!("error: {name}: {error}")))?;
    let registry = folder.open(None)?;
    let claim = Claim {
        event_type: &args.event_type,
        schema_version: args.version,
        rust_type: &name,
        file: &name,
        line: 1,
        schema: imported.schema,
    };
    let blessed = bless::write(&registry, &claim, false).map_err(|error| {
        let text = format!("error: {}", outbox_relay::chain(&error));
        match error {
            BlessError::Breaking { report, next, .. } => Failure::check(format!(
                "error: {report}readers would break, or it cannot be proved that they do not; import it as the next major: \
                 --version {next}"
            )),
            BlessError::Schema { .. } => Failure::check(text),
            _ => Failure::usage(text),
        }
    })?;
    let (word, path) = match &blessed {
        Blessed::Unchanged => ("unchanged", None),
        Blessed::Created(path) => ("created", Some(path)),
        Blessed::Rewritten(path) => ("rewritten", Some(path)),
    };
    let path = path.map(|path| path.display().to_string());
    let text = || match &path {
        Some(path) => format!("{word} {path}"),
        None => format!("the registry has it already as {}@{}", args.event_type, args.version),
    };
    output::result(format, text, || json!({"outcome": word, "path": path, "ignored": imported.ignored}))?;
    if format == OutputFormat::Text {
        for pointer in &imported.ignored {
            output::remark(&format!("left out, since it means nothing there: {pointer}"));
        }
    }
    Ok(())
}

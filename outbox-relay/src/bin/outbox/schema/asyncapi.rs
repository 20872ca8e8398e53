//! `outbox schema asyncapi`: the registry as an AsyncAPI 3 document.

use std::fs;
use std::path::PathBuf;

use outbox_schema::asyncapi::{Info, document};
use serde_json::json;

use super::folder::Folder;
use crate::OutputFormat;
use crate::exit::Failure;
use crate::output;

/// Arguments of `outbox schema asyncapi`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write it to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write nothing; exit 1 if the file is another one.
    #[arg(long, requires = "output")]
    check: bool,
    /// The title of the API.
    #[arg(long, value_name = "TEXT", default_value = "Events")]
    title: String,
    /// The version of the API.
    #[arg(long, value_name = "TEXT", default_value = "1.0.0")]
    api_version: String,
}

pub(super) fn asyncapi(folder: &Folder, args: &Args, format: OutputFormat) -> Result<(), Failure> {
    let registry = folder.open(None)?;
    let document = document(&registry, Info { title: &args.title, version: &args.api_version });
    let Some(path) = &args.output else {
        return output::result(format, || format!("{document:#}"), || document.clone());
    };
    let text = format!("{document:#}\n");
    let name = path.display();
    if args.check {
        return match fs::read_to_string(path) {
            Ok(there) if there == text => {
                output::result(format, || format!("{name} is up to date"), || json!({"up_to_date": true}))
            }
            _ => Err(Failure::check(format!(
                "error: {name} is not the document of the registry; run `outbox schema asyncapi --output {name}`"
            ))),
        };
    }
    fs::write(path, text).map_err(|error| {
        Failure::usage(format!("error: {name} cannot be written: {error}; name another --output"))
    })?;
    output::result(format, || format!("wrote {name}"), || json!({"wrote": name.to_string()}))
}

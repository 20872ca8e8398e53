//! `outbox schema init`: a registry folder.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use outbox_schema::Registry;
use outbox_schema::registry::SETTINGS_FILE;
use serde_json::json;

use super::folder::Folder;
use crate::OutputFormat;
use crate::exit::Failure;
use crate::output;

/// Arguments of `outbox schema init`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// What a new folder says.
const SETTINGS: &str = "# The schemas of our events: one folder per event type, one file per revision. Revisions are only ever added.
# What a new minor owes to all earlier ones of its major: \"full\", \"backward\", \"forward\" or \"none\".
compatibility = \"full\"
# What is on this git revision may only change in words.
base = \"origin/main\"
";

pub(super) fn init(folder: &Folder, _args: &Args, format: OutputFormat) -> Result<(), Failure> {
    let root = folder.given().unwrap_or(Path::new("schemas"));
    let path = root.join(SETTINGS_FILE);
    let failed = |error| {
        Failure::usage(format!(
            "error: {} cannot be written: {error}; name another --registry",
            path.display()
        ))
    };
    fs::create_dir_all(root).map_err(failed)?;
    let created = match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(mut file) => {
            file.write_all(SETTINGS.as_bytes()).map_err(failed)?;
            true
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
        Err(error) => return Err(failed(error)),
    };
    // What lies in the folder already may have no place in a registry.
    Registry::open(root).map_err(|error| Failure::usage(format!("error: {error}")))?;
    let text = || {
        if created {
            format!(
                "made {}; `OUTBOX_BLESS=1 cargo test` writes the schemas of your events into it",
                path.display()
            )
        } else {
            format!("{} is a registry already", root.display())
        }
    };
    output::result(format, text, || json!({"registry": root.display().to_string(), "created": created}))
}

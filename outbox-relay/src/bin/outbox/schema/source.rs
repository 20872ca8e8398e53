//! One schema as an argument: a file, or a revision of the registry.

use std::path::PathBuf;

use outbox_schema::parse_schema;
use serde_json::Value;

use super::folder::Folder;
use crate::exit::Failure;

/// How schemas are named on the command line.
pub(super) const HELP: &str = "name a file, or a revision of the registry as in entity.customer.updated@1.0 (@1 is the \
                               newest of major 1)";

/// A schema that was named.
pub(super) struct Named {
    /// As reports show it.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) schema: Value,
}

/// Reads a schema.
pub(super) fn read(folder: &Folder, argument: &str) -> Result<Named, Failure> {
    let path = match argument.split_once('@') {
        Some((event_type, version)) if !PathBuf::from(argument).exists() => {
            revision(folder, event_type, version)?
        }
        _ => PathBuf::from(argument),
    };
    let name = path.display().to_string();
    let failed = |why: String| Failure::usage(format!("error: {name}: {why}"));
    let text = std::fs::read_to_string(&path).map_err(|error| failed(format!("{error}; {HELP}")))?;
    let schema = parse_schema(text.as_bytes()).map_err(|problem| failed(problem.to_string()))?;
    Ok(Named { name, text, schema })
}

fn revision(folder: &Folder, event_type: &str, version: &str) -> Result<PathBuf, Failure> {
    let registry = folder.open(None)?;
    let (major, minor) =
        version.split_once('.').map_or((version, None), |(major, minor)| (major, Some(minor)));
    let file = major.parse().ok().and_then(|major: u32| match minor {
        None => registry.newest(event_type, major),
        Some(minor) => {
            let minor: u32 = minor.parse().ok()?;
            registry.minors(event_type, major).iter().find(|file| file.minor == minor)
        }
    });
    file.map(|file| file.path.clone()).ok_or_else(|| {
        Failure::usage(format!(
            "error: {} has no revision `{event_type}@{version}`; `outbox schema list` shows them",
            registry.root().display()
        ))
    })
}

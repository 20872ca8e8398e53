//! `outbox schema diff`: what differs between two schemas.

use outbox_schema::Fingerprint;
use outbox_schema::compat::changes;
use serde_json::json;

use super::folder::Folder;
use super::source;
use crate::OutputFormat;
use crate::exit::Failure;
use crate::output;

/// Arguments of `outbox schema diff`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A schema: a file, or a revision of the registry, such as entity.customer.updated@1.0.
    #[arg(value_name = "OLD")]
    old: String,
    /// The other one.
    #[arg(value_name = "NEW")]
    new: String,
}

pub(super) fn diff(folder: &Folder, args: &Args, format: OutputFormat) -> Result<(), Failure> {
    let (old, new) = (source::read(folder, &args.old)?, source::read(folder, &args.new)?);
    let same = Fingerprint::of(&old.schema) == Fingerprint::of(&new.schema);
    let lines = if same { Vec::new() } else { changes(&old.schema, &new.schema) };
    let text = || {
        if same {
            return "the same meaning".to_owned();
        }
        lines.iter().map(|line| output::escaped(line)).collect::<Vec<_>>().join("\n")
    };
    output::result(format, text, || json!({"same": same, "changes": lines}))
}

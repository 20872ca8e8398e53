//! `outbox schema compat`: whether one schema can follow another inside a major.

use outbox_schema::compat::report::{self, Source};
use outbox_schema::compat::{Verdict, compare};

use super::folder::Folder;
use super::source;
use crate::OutputFormat;
use crate::exit::Failure;
use crate::output;

/// Arguments of `outbox schema compat`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The schema that is in use: a file, or a revision of the registry, such as entity.customer.updated@1.0.
    #[arg(value_name = "OLD")]
    old: String,
    /// The schema that shall follow it.
    #[arg(value_name = "NEW")]
    new: String,
    /// Which direction must hold: old payloads with new readers (backward), new payloads with old readers (forward), or
    /// both (full).
    #[arg(long, value_name = "MODE", value_parser = ["full", "backward", "forward"], default_value = "full")]
    mode: String,
}

pub(super) fn compat(folder: &Folder, args: &Args, format: OutputFormat) -> Result<(), Failure> {
    let (old, new) = (source::read(folder, &args.old)?, source::read(folder, &args.new)?);
    let comparison = compare(&old.schema, &new.schema);
    let [old, new] = [&old, &new].map(|named| Source { name: &named.name, text: Some(&named.text) });
    match format {
        OutputFormat::Github => output::lines(&report::github(&comparison, old, new))?,
        _ => output::result(format, || report::text(&comparison, old, new), || report::json(&comparison))?,
    }
    let verdict = match args.mode.as_str() {
        "backward" => comparison.backward,
        "forward" => comparison.forward,
        _ => comparison.worst(),
    };
    match verdict {
        Verdict::Compatible => Ok(()),
        Verdict::Breaking => {
            Err(Failure::check("error: readers break; give the event the next `schema_version`"))
        }
        Verdict::Undecided => Err(Failure::check(
            "error: cannot prove compatible (treated as breaking); write the change in a way that can be, or give the \
             event the next `schema_version`",
        )),
    }
}

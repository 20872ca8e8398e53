//! The registry as Markdown: one page per event type, and one that lists them.
//!
//! The same registry and readers give the same bytes, so that pages can be committed and checked.

mod example;
mod fields;

use std::fmt::Write as _;

use crate::compare;
use crate::event_type::EventType;
use crate::registry::{Registry, SchemaFile};

/// The page that lists all event types.
pub const INDEX: &str = "README.md";

/// The first line of every page, by which a page is known as one of ours.
pub const MARK: &str = "<!-- made by `outbox schema docs`; do not edit -->";

/// A consumer that reads an event type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Its name.
    pub consumer: String,
    /// The major that it pins; `None` reads whatever major is published.
    pub major: Option<u32>,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its name in the folder of pages.
    pub file_name: String,
    /// Its text, which begins with [`MARK`].
    pub text: String,
}

/// All pages. `readers` says who reads an event type; `None` if that is not known, which is not the same as nobody.
///
/// ```no_run
/// use outbox_schema::{Registry, docs};
///
/// for page in docs::pages(&Registry::open("schemas")?, |_| None) {
///     println!("{}\n{}", page.file_name, page.text);
/// }
/// # Ok::<(), outbox_schema::RegistryError>(())
/// ```
pub fn pages(registry: &Registry, readers: impl Fn(&str) -> Option<Vec<Reader>>) -> Vec<Page> {
    let mut index = format!("{MARK}\n# Events\n\n| event type | majors | |\n|---|---|---|\n");
    let mut pages = Vec::new();
    for event_type in registry.event_types() {
        let majors: Vec<u32> = registry.majors(event_type.as_str()).collect();
        let newest = majors.last().and_then(|major| registry.newest(event_type.as_str(), *major));
        let removed = registry
            .tombstone(event_type.as_str())
            .map(|stone| format!("no longer published since {}", stone.date));
        let what = removed.or_else(|| newest.and_then(description)).unwrap_or_default();
        let majors: Vec<String> = majors.iter().map(|major| format!("v{major}")).collect();
        let first_line = what.lines().next().unwrap_or_default();
        _ = writeln!(
            index,
            "| [{event_type}]({event_type}.md) | {} | {} |",
            majors.join(", "),
            cell(first_line)
        );
        let text = page(registry, event_type, readers(event_type.as_str()).as_deref());
        pages.push(Page { file_name: format!("{event_type}.md"), text });
    }
    pages.push(Page { file_name: INDEX.to_owned(), text: index });
    pages
}

fn page(registry: &Registry, event_type: &EventType, readers: Option<&[Reader]>) -> String {
    let mut out = format!("{MARK}\n# {event_type}\n\n");
    if let Some(stone) = registry.tombstone(event_type.as_str()) {
        _ = writeln!(out, "**No longer published since {}:** {}\n", stone.date, prose(&stone.reason));
    }
    let mut majors: Vec<u32> = registry.majors(event_type.as_str()).collect();
    majors.reverse();
    out.push_str("| version | fingerprint |");
    out.push_str(if readers.is_some() { " read by |\n|---|---|---|\n" } else { "\n|---|---|\n" });
    for &major in &majors {
        for file in registry.minors(event_type.as_str(), major).iter().rev() {
            _ = write!(out, "| v{major}.{} | `{}` |", file.minor, file.fingerprint);
            if let Some(readers) = readers {
                let newest = registry
                    .newest(event_type.as_str(), major)
                    .is_some_and(|newest| newest.minor == file.minor);
                let names =
                    readers.iter().filter(|reader| newest && reader.major.is_none_or(|pin| pin == major));
                let names: Vec<String> = names.map(|reader| format!("`{}`", reader.consumer)).collect();
                _ = write!(out, " {} |", names.join(", "));
            }
            out.push('\n');
        }
    }
    if readers.is_some_and(<[Reader]>::is_empty) {
        out.push_str("\nNo consumer reads it.\n");
    }
    for major in majors {
        if let Some(newest) = registry.newest(event_type.as_str(), major) {
            version(&mut out, newest, registry.minors(event_type.as_str(), major));
        }
    }
    out
}

/// The section of one major: its newest minor, an example, and how it came to be.
fn version(out: &mut String, newest: &SchemaFile, minors: &[SchemaFile]) {
    _ = writeln!(out, "\n## v{}\n", newest.major);
    if let Some(text) = description(newest) {
        _ = writeln!(out, "{}\n", prose(&text));
    }
    let fields = fields::of(&newest.schema);
    if fields.is_empty() {
        out.push_str("It has no declared fields.\n");
    } else {
        out.push_str("| field | type | required | constraints | meaning |\n|---|---|---|---|---|\n");
        for field in fields {
            let required = if field.required { "yes" } else { "no" };
            _ = writeln!(
                out,
                "| {} | {} | {required} | {} | {} |",
                code(&field.path.replace('|', "\\|")),
                cell(&field.kind),
                cell(&field.constraints),
                cell(&field.meaning)
            );
        }
    }
    if let Some(example) = example::of(&newest.schema) {
        _ = writeln!(out, "\n```json\n{example:#}\n```");
    }
    if minors.len() > 1 {
        out.push_str("\n### Changes\n");
        for two in minors.windows(2).rev() {
            let [old, new] = two else { continue };
            _ = writeln!(out, "\nv{}.{}:\n", new.major, new.minor);
            let changes = compare::changes(&old.schema, &new.schema);
            if changes.is_empty() {
                out.push_str("- other words only\n");
            }
            changes.iter().for_each(|line| _ = writeln!(out, "- {}", code(&collapsed(line))));
        }
    }
}

fn description(file: &SchemaFile) -> Option<String> {
    file.schema.get("description")?.as_str().map(str::to_owned)
}

/// Inline code that may hold backticks.
fn code(text: &str) -> String {
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// Text of a schema in a cell: one line, no markup that ends the cell or begins a tag.
fn cell(text: &str) -> String {
    collapsed(text).replace('|', "\\|").replace('<', "&lt;")
}

fn prose(text: &str) -> String {
    text.replace('<', "&lt;")
}

fn collapsed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;

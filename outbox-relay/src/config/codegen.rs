//! `[codegen]`: the code of a consumer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outbox_schema::codegen::{Database, Decimal, Options, Time};

use super::consumer::{NAME_HELP, parsed, pins};
use super::reader::{Section, as_text, read_node};
use crate::consumer::ConsumerName;

/// `[codegen]`: which code `outbox codegen` writes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CodegenConfig {
    /// The consumer, its pins and what the code looks like.
    pub options: Options,
    /// The file; a relative path in the configuration begins beside it.
    pub output: PathBuf,
    /// The language.
    pub language: Language,
}

/// The language of generated code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    #[default]
    Rust,
    /// TypeScript.
    TypeScript,
}

impl Language {
    /// How its files end.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Rust => "rs",
            Self::TypeScript => "ts",
        }
    }
}

/// Nothing when a key that must be there is missing or was refused.
pub(super) fn codegen(mut section: Section<'_>, folder: &Path) -> Option<CodegenConfig> {
    let output_help = "name the file that is written, such as output = \"src/events.rs\"";
    let pins_help =
        "pin each event type to the major that is read, such as pins = { \"entity.customer.updated\" = 2 }";
    let consumer =
        section.read("consumer", |value| parsed::<ConsumerName>(value, "a consumer name", NAME_HELP));
    let output = section.checked("output", |text| !text.is_empty(), ("is empty", output_help));
    let has_pins = section.has("pins");
    let pins = pins(&mut section, "[codegen.pins]");
    let language = section.one_of("language", &[("rust", Language::Rust), ("ts", Language::TypeScript)]);
    let database =
        section.one_of("database", &[("postgres", Database::Postgres), ("sqlite", Database::Sqlite)]);
    let time = section.one_of("time", &[("text", Time::Text), ("chrono", Time::Chrono)]);
    let decimal =
        section.one_of("decimal", &[("text", Decimal::Text), ("rust_decimal", Decimal::RustDecimal)]);
    let serialize = section.bool("serialize");
    let types = types(&mut section);

    if !has_pins {
        section.refuse(section.place().clone(), "`pins` is missing in [codegen]", pins_help);
    }
    let consumer = section.require("consumer", consumer, NAME_HELP);
    let output = section.require("output", output, output_help);
    section.finish();

    let mut options = Options::new(consumer?.as_str());
    options.pins = pins.into_iter().map(|(event_type, (major, _))| (event_type, major)).collect();
    options.database = database.or(options.database);
    options.time = time.or(options.time);
    options.decimal = decimal.or(options.decimal);
    options.serialize = serialize.or(options.serialize);
    options.types = types;
    Some(CodegenConfig { options, output: folder.join(output?), language: language.or(Language::default()) })
}

/// Types for places in schemas.
fn types(section: &mut Section<'_>) -> BTreeMap<String, String> {
    let findings = section.findings();
    let Some(table) = section.table("types", "[codegen.types]") else { return BTreeMap::new() };
    let mut types = BTreeMap::new();
    for (key, entry) in table.entries() {
        let name = format!("the type for `{key}`");
        let ty = read_node(&name, entry.node, |value| as_text(value).map(str::to_owned), findings);
        types.extend(ty.given().map(|ty| (key, ty)));
    }
    types
}

//! `outbox codegen`: the types and the handler of a consumer, written or checked.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use outbox_relay::config::{CodegenConfig, Config, Language};
use outbox_schema::Registry;
use outbox_schema::codegen::{self, Difference, PinChange};
use serde_json::{Value, json};

use crate::OutputFormat;
use crate::exit::Failure;
use crate::output;

const CONFIG: &str = "outbox.toml";

/// Arguments of `outbox codegen`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration file, with a `[codegen]` section.
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
    /// Write nothing; exit 1 and say what changed if the file is not what it should be.
    #[arg(long)]
    check: bool,
    /// The language. Default: the configuration's. Another one goes to a file with its own ending.
    #[arg(long, value_enum)]
    lang: Option<Lang>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lang {
    Rust,
    Ts,
}

impl From<Lang> for Language {
    fn from(lang: Lang) -> Self {
        match lang {
            Lang::Rust => Self::Rust,
            Lang::Ts => Self::TypeScript,
        }
    }
}

pub(crate) fn codegen(args: &Args, format: OutputFormat) -> Result<(), Failure> {
    let config = Config::load(&args.config, std::env::vars_os())?;
    let (output, text, mut command) =
        generate(&config, config.require_codegen()?, args.lang.map(Language::from))?;
    if args.config != Path::new(CONFIG) {
        command.push_str(&format!(" --config {}", args.config.display()));
    }
    let file = read(&output)?;
    let difference = codegen::difference(file.as_deref(), &text);
    if args.check {
        return match difference {
            None => print(format, &output, "up to date", &[]),
            Some(difference) => {
                if format == OutputFormat::Json {
                    print(format, &output, "out of date", changes(&difference))?;
                }
                Err(Failure::check(format!(
                    "error: {} is out of date: {difference}\nhelp: run `{command}` and commit the file",
                    output.display()
                )))
            }
        };
    }
    let Some(difference) = difference else { return print(format, &output, "up to date", &[]) };
    fs::write(&output, text).map_err(|error| {
        Failure::usage(format!(
            "error: {} cannot be written: {error}; create its folder, or correct `output` in [codegen]",
            output.display()
        ))
    })?;
    print(format, &output, "written", changes(&difference))
}

/// The file, its text, and the command that writes it.
fn generate(
    config: &Config,
    codegen: &CodegenConfig,
    wanted: Option<Language>,
) -> Result<(PathBuf, String, String), Failure> {
    let registry =
        Registry::open(&config.registry.path).map_err(|error| Failure::usage(format!("error: {error}")))?;
    let language = wanted.unwrap_or(codegen.language);
    let mut options = codegen.options.clone();
    let mut output = codegen.output.clone();
    if language != codegen.language {
        output.set_extension(language.extension());
        options.command.push_str(match language {
            Language::Rust => " --lang rust",
            Language::TypeScript => " --lang ts",
        });
    }
    let text = match language {
        Language::Rust => codegen::rust(&registry, &options),
        Language::TypeScript => codegen::typescript(&registry, &options),
    };
    let text = text.map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(|error| format!("error: {error}")).collect();
        Failure::usage(lines.join("\n"))
    })?;
    Ok((output, text, options.command))
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::usage(format!(
            "error: {} cannot be read: {error}; correct `output` in [codegen], or remove what is there",
            path.display()
        ))),
    }
}

fn changes(difference: &Difference) -> &[PinChange] {
    match difference {
        Difference::Pins(changes) => changes,
        _ => &[],
    }
}

fn print(format: OutputFormat, file: &Path, state: &str, changes: &[PinChange]) -> Result<(), Failure> {
    let text = || {
        let lines: String = changes.iter().map(|change| format!("\n  {change}")).collect();
        format!("{}: {state}{lines}", file.display())
    };
    output::result(format, text, || {
        let changes: Vec<Value> = changes.iter().map(change_json).collect();
        json!({"output": file.display().to_string(), "state": state, "pins": changes})
    })
}

fn change_json(change: &PinChange) -> Value {
    match change {
        PinChange::Added { now } => json!({"change": "added", "now": now}),
        PinChange::Removed { was } => json!({"change": "removed", "was": was}),
        PinChange::Changed { event_type, was, now } => {
            json!({"change": "changed", "event_type": event_type, "was": was, "now": now})
        }
        _ => json!({"change": "other"}),
    }
}

//! `outbox schema check`: the gate for CI.

use std::path::PathBuf;

use outbox_relay::config::Config;
use outbox_schema::compat::gate::{self, Base};
use outbox_schema::compat::report::escape;
use outbox_schema::registry::is_revision;
use outbox_schema::{CompileErrors, Registry, RegistryError, Validators};
use serde_json::{Value, json};

use super::backlog;
use super::folder::{self, Folder};
use super::readers;
use crate::OutputFormat;
use crate::exit::Failure;
use crate::output;

/// Arguments of `outbox schema check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outbox schema check --against origin/main\n  outbox schema check --format github --against \
                  origin/main\n  outbox schema check --config outbox.toml --database postgres://app@localhost/app"
)]
pub(crate) struct Args {
    /// Compare with what is committed: revisions that HEAD has in common with this git revision may change in words only.
    /// Without a value it is `base` of registry.toml.
    #[arg(long, value_name = "REV", num_args = 0..=1, default_missing_value = "", value_parser = revision)]
    against: Option<String>,
    /// The configuration file: pins of its consumers must have a schema.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Also check that every stored event can be read with this registry, and every open one by its consumers with their
    /// pins: postgres://USER@HOST/DATABASE or sqlite://PATH.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The PostgreSQL schema that holds the tables. Default: the configuration's, else `outbox`.
    #[arg(long, value_name = "NAME", requires = "database")]
    schema: Option<String>,
}

fn revision(text: &str) -> Result<String, String> {
    if text.is_empty() || is_revision(text) {
        return Ok(text.to_owned());
    }
    Err("not a git revision, expected one like `origin/main`".to_owned())
}

pub(super) async fn check(folder: &Folder, args: Args, format: OutputFormat) -> Result<(), Failure> {
    let config = readers::config(args.config.as_deref())?;
    let registry = match folder.try_open(config.as_ref())? {
        Ok(registry) => registry,
        Err(error) => {
            invalid(&error, format)?;
            return Err(folder::failed(&error));
        }
    };
    let base = match &args.against {
        None => None,
        Some(revision) => {
            let revision = if revision.is_empty() { &registry.settings().base } else { revision };
            let failed = |error| Failure::usage(format!("error: {}", outbox_relay::chain(&error)));
            Some(Base::of(&registry, revision).map_err(failed)?)
        }
    };
    let report = gate::check(&registry, base.as_ref());
    let compiled = Validators::compile(&registry);
    let pins = config.as_ref().map(|config| dangling_pins(config, &registry)).unwrap_or_default();
    let backlog = match (&args.database, &compiled) {
        (Some(url), Ok(validators)) => {
            Some(backlog::check(url, args.schema.as_deref(), config.as_ref(), validators).await?)
        }
        _ => None,
    };

    let backlog_passes = backlog.as_ref().is_none_or(|backlog| backlog.unreadable.is_empty());
    let passes = report.passes() && compiled.is_ok() && pins.is_empty() && backlog_passes;
    let uncompiled = compiled.as_ref().err().map(ToString::to_string);
    match format {
        OutputFormat::Text => {
            let mut text: String = pins.iter().map(|pin| pin.text() + "\n").collect();
            text.push_str(&gate::text(&report, &registry));
            if let Some(problems) = &uncompiled {
                text = format!("error: {problems}\n{text}");
            }
            if let Some(backlog) = &backlog {
                text.push_str(&backlog::text(backlog));
            }
            output::lines(&text)?;
        }
        OutputFormat::Json => {
            let mut value = gate::json(&report);
            // Of the whole check, as the exit code.
            value["passes"] = json!(passes);
            value["not_compiled"] = json!(uncompiled);
            value["pins"] = pins.iter().map(Pin::value).collect();
            value["backlog"] = backlog.as_ref().map_or(Value::Null, backlog::value);
            output::lines(&value.to_string())?;
        }
        OutputFormat::Github => {
            let mut text = gate::github(&report, &registry);
            let unread = backlog.as_ref().map(backlog::lines).unwrap_or_default();
            for error in compiled.as_ref().err().into_iter().flat_map(CompileErrors::as_slice) {
                let (file, message) = (error.path.display().to_string(), error.problem.to_string());
                text.push_str(&format!(
                    "::error file={}::{}\n",
                    escape(&file, true),
                    escape(&message, false)
                ));
            }
            for line in pins.iter().map(Pin::text).chain(unread) {
                text.push_str(&format!("::error::{}\n", escape(&line, false)));
            }
            output::lines(&text)?;
        }
    }
    if passes {
        return Ok(());
    }
    Err(Failure::check("error: the check of the registry failed; what is above says why and what to do"))
}

/// What is wrong with the folder, for programs; people read it with the failure.
fn invalid(error: &RegistryError, format: OutputFormat) -> Result<(), Failure> {
    let problems = match error {
        RegistryError::Invalid { problems, .. } => problems.as_slice(),
        _ => &[],
    };
    let problems =
        problems.iter().map(|problem| (problem.path.display().to_string(), problem.reason.to_string()));
    match format {
        OutputFormat::Text => Ok(()),
        OutputFormat::Json => {
            let problems: Vec<_> =
                problems.map(|(path, message)| json!({"path": path, "message": message})).collect();
            let value = json!({"passes": false, "error": error.to_string(), "problems": problems});
            output::lines(&value.to_string())
        }
        OutputFormat::Github => {
            let mut text: String = problems
                .map(|(path, message)| {
                    format!("::error file={}::{}\n", escape(&path, true), escape(&message, false))
                })
                .collect();
            if text.is_empty() {
                text = format!("::error::{}\n", escape(&error.to_string(), false));
            }
            output::lines(&text)
        }
    }
}

/// A pin of a major that the registry does not have.
struct Pin {
    consumer: String,
    event_type: String,
    major: u32,
}

impl Pin {
    fn text(&self) -> String {
        let Self { consumer, event_type, major } = self;
        format!(
            "error[pin]: consumer `{consumer}` pins v{major} of `{event_type}`, which has no schema\n  = help: correct the \
             pin, or commit the schema"
        )
    }

    fn value(&self) -> Value {
        json!({"consumer": self.consumer, "event_type": self.event_type, "major": self.major})
    }
}

fn dangling_pins(config: &Config, registry: &Registry) -> Vec<Pin> {
    let pins = config.consumers.iter().flat_map(|consumer| {
        let pin = move |(event_type, major): (&String, &u32)| Pin {
            consumer: consumer.spec.name.as_str().to_owned(),
            event_type: event_type.clone(),
            major: *major,
        };
        consumer.spec.pins.iter().map(pin)
    });
    pins.filter(|pin| registry.newest(&pin.event_type, pin.major).is_none()).collect()
}

//! The configuration of the command `outbox`: one TOML file, the environment laid over it, all mistakes at once.
//!
//! A file is read in four steps: parse into a tree that remembers places (`document`), lay `OUTBOX__` variables over
//! it (`env`), pull typed values out section by section (`reader`, `sections`, `consumer`, `retry`), and report what
//! was found on the way with a picture of the line (`error`), in which secrets are masked (`redact`).

mod codegen;
mod consumer;
mod document;
mod env;
mod error;
mod reader;
mod redact;
mod retry;
mod secret;
mod sections;
mod suggest;
#[cfg(test)]
mod tests;
mod units;
mod webhook;

use std::ffi::OsString;
use std::path::Path;

use outbox_sdk::webhook::Source as EventSource;

use self::document::{Place, Table};
use self::error::{Findings, Source};
use self::reader::Section;
use self::secret::Environment;
use crate::Settings;
use crate::maintenance::RetainFor;

pub use self::codegen::{CodegenConfig, Language};
pub use self::consumer::ConsumerConfig;
pub use self::error::{ConfigError, Finding, Report};
pub use self::secret::Secret;
pub use self::sections::{DatabaseConfig, RegistryConfig, RelayConfig};
pub use self::units::{UnitError, duration as parse_duration, time as parse_time};

/// A checked configuration. Every section may be absent; a command asks for what it needs with the `require`
/// methods.
///
/// ```
/// use outbox_relay::config::Config;
///
/// let text = r#"
///     [database]
///     url = "env:DATABASE_URL"
///
///     [[consumer]]
///     name = "crm"
///     events = ["entity.customer.*"]
///
///     [consumer.webhook]
///     url = "https://crm.example/hooks"
///     secrets = ["env:CRM_SECRET"]
/// "#;
/// let env = [
///     ("DATABASE_URL", "postgres://app@localhost/app"),
///     ("CRM_SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"),
///     ("OUTBOX__CONSUMER__CRM__MAX_IN_FLIGHT", "8"),
/// ];
/// let config = Config::parse("outbox.toml", text, env)?;
/// assert_eq!(config.require_consumers()?[0].spec.max_in_flight, 8);
/// # Ok::<(), outbox_relay::config::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// `[database]`.
    pub database: DatabaseConfig,
    /// `[relay]`.
    pub relay: RelayConfig,
    /// `[registry]`.
    pub registry: RegistryConfig,
    /// `[codegen]`, if it is there.
    pub codegen: Option<CodegenConfig>,
    /// `[retention]`: how long events are kept.
    pub retention: RetainFor,
    /// Every `[[consumer]]`, in the order of the file.
    pub consumers: Vec<ConsumerConfig>,
    source: Source,
}

impl Config {
    /// Reads the file at `path` and lays the `OUTBOX__` variables of `env` over it; `env` also answers `env:NAME`.
    /// Pass `std::env::vars_os()`.
    ///
    /// # Errors
    /// [`ConfigError::Read`] when the file is not readable text, [`ConfigError::Invalid`] with every mistake in it.
    pub fn load<K: Into<OsString>, V: Into<OsString>>(
        path: impl AsRef<Path>,
        env: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, ConfigError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text, env)
    }

    /// As [`Config::load`], with the text at hand; `path` is shown in reports, and its folder is where relative
    /// paths begin.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with every mistake.
    pub fn parse<K: Into<OsString>, V: Into<OsString>>(
        path: impl AsRef<Path>,
        text: &str,
        env: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, ConfigError> {
        let path = path.as_ref().to_owned();
        let env = Environment::new(env);
        match document::parse(text) {
            Ok(tree) => {
                let source = Source { path, text: redact::redact(text, &redact::secrets_in(&tree)) };
                Self::read(tree, &env, source)
            }
            Err(errors) => {
                let help = "correct the TOML syntax; everything else is checked after that";
                let findings = errors.into_iter().map(|error| {
                    Finding::new(Place::File(error.span), format!("not valid TOML: {}", error.message), help)
                });
                let text = redact::redact(text, &redact::after_secret_keys(text));
                Err(Source { path, text }.refuse(findings.collect()))
            }
        }
    }

    /// The configuration of the environment alone, for commands that run without a file.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with every mistake.
    pub fn from_env<K: Into<OsString>, V: Into<OsString>>(
        env: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, ConfigError> {
        Self::parse("", "", env)
    }

    /// The address of the database.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] when it is not configured.
    pub fn require_database(&self) -> Result<&Secret, ConfigError> {
        self.database.url.as_ref().ok_or_else(|| {
            let help = "add url = \"env:DATABASE_URL\" to [database], or give --database";
            self.source.refuse(vec![Finding::new(Place::Whole, "no database is configured", help)])
        })
    }

    /// The consumers: at least one, and each with a destination.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] when there is none, or some have no destination.
    pub fn require_consumers(&self) -> Result<&[ConsumerConfig], ConfigError> {
        let findings: Vec<Finding> = if self.consumers.is_empty() {
            let help = "add a [[consumer]] with a name and a [consumer.webhook]";
            vec![Finding::new(Place::Whole, "no consumer is configured, so nothing would be delivered", help)]
        } else {
            let homeless = self.consumers.iter().filter(|consumer| consumer.webhook.is_none());
            homeless
                .map(|consumer| {
                    let message = format!("the consumer `{}` has no destination", consumer.spec.name);
                    Finding::new(
                        consumer.place.clone(),
                        message,
                        "add a [consumer.webhook] with url and secrets",
                    )
                })
                .collect()
        };
        if findings.is_empty() { Ok(&self.consumers) } else { Err(self.source.refuse(findings)) }
    }

    /// What `outbox codegen` writes.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] when it is not configured.
    pub fn require_codegen(&self) -> Result<&CodegenConfig, ConfigError> {
        self.codegen.as_ref().ok_or_else(|| {
            let help = "add a [codegen] with consumer, output and pins";
            self.source.refuse(vec![Finding::new(
                Place::Whole,
                "no code is configured to be generated",
                help,
            )])
        })
    }

    /// The consumers without which nothing may be deleted, whether they are registered or not.
    #[must_use]
    pub fn required_for_retention(&self) -> Vec<String> {
        let specs = self.consumers.iter().map(|consumer| &consumer.spec);
        specs.filter(|spec| spec.required_for_retention).map(|spec| spec.name.to_string()).collect()
    }

    /// The settings of the relay: `[relay]`, `[retention]`, the database's deadline and what happens without a schema.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let relay = &self.relay;
        let mut settings = Settings::default();
        if let Some(name) = &relay.name {
            settings.name.clone_from(name);
        }
        settings.lease = relay.lease;
        settings.poll_min = relay.poll_min;
        settings.poll_max = relay.poll_max;
        settings.listen = relay.listen;
        settings.read_rows = relay.read_rows;
        settings.read_bytes = relay.read_bytes;
        settings.window_rows = usize::try_from(relay.window_rows).unwrap_or(usize::MAX);
        settings.window_bytes = usize::try_from(relay.window_bytes).unwrap_or(usize::MAX);
        settings.grace = relay.grace;
        settings.deadline = self.database.deadline;
        settings.missing_schema = self.registry.missing;
        settings.recorder = relay.recorder;
        settings.attempt_history = relay.attempt_history;
        settings.retention = self.retention.clone();
        settings
    }

    fn read(mut tree: Table, env: &Environment, source: Source) -> Result<Self, ConfigError> {
        let findings = Findings::default();
        env::overlay(&mut tree, env, &findings);

        let folder = source.folder();
        let mut root = Section::new("the configuration", Place::Whole, tree, &findings);
        let database = section(&mut root, "database", "[database]", &findings);
        let (mut database, deadline) = sections::database(database, env, folder);
        let (relay, lease) =
            sections::relay(section(&mut root, "relay", "[relay]", &findings), database.pooled);
        let registry = sections::registry(section(&mut root, "registry", "[registry]", &findings), folder);
        let codegen =
            root.table("codegen", "[codegen]").and_then(|section| codegen::codegen(section, folder));
        let retention = sections::retention(section(&mut root, "retention", "[retention]", &findings));
        database.deadline = sections::deadline(deadline, &lease, &findings);
        let lease_known = lease.known(relay.lease).map(|value| (value, lease.place()));
        let origin = EventSource { source: relay.source.clone(), dataschema_base: registry.base_url.clone() };
        let context = consumer::Context { env, folder, source: &origin, lease: lease_known };
        let consumers = consumer::consumers(root.tables("consumer"), context);
        root.finish();

        let findings = findings.into_vec();
        if findings.is_empty() {
            Ok(Self { database, relay, registry, codegen, retention, consumers, source })
        } else {
            Err(source.refuse(findings))
        }
    }
}

/// A section of the root; an absent one is read as an empty one, so that its defaults apply.
fn section<'a>(
    root: &mut Section<'a>,
    key: &'static str,
    title: &str,
    findings: &'a Findings,
) -> Section<'a> {
    root.table(key, title).unwrap_or_else(|| Section::new(title, Place::Whole, Table::new(), findings))
}

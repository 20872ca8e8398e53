//! Who reads an event type, as a configuration says.

use std::path::{Path, PathBuf};

use outbox_relay::config::Config;
use outbox_schema::docs::Reader;

use crate::exit::Failure;

/// The configuration at `path`, if one is named.
pub(super) fn config(path: Option<&Path>) -> Result<Option<Config>, Failure> {
    Ok(path.map(|path| Config::load(path, std::env::vars_os())).transpose()?)
}

/// The configuration that is named, else `outbox.toml`.
pub(super) fn config_or_default(path: Option<&Path>) -> Result<Config, Failure> {
    let default = PathBuf::from("outbox.toml");
    Ok(Config::load(path.unwrap_or(&default), std::env::vars_os())?)
}

/// The consumers that want an event type, in the order of the file.
pub(super) fn of(config: &Config, event_type: &str) -> Vec<Reader> {
    let wanting = config.consumers.iter().filter(|consumer| consumer.spec.events.matches(event_type));
    wanting
        .map(|consumer| Reader {
            consumer: consumer.spec.name.as_str().to_owned(),
            major: consumer.spec.pinned(event_type),
        })
        .collect()
}

//! What a sink sends with: read from its files, read again when they change, without harm to what is on its way.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, HeaderValue};
use outbox_sdk::webhook::{Secret, Secrets};
use reqwest::Client;

use super::client::client;
use super::config::{Credential, WebhookConfig, WebhookConfigError};
use super::guard::Guard;
use super::tls::{self, Tls, TlsFiles};
use crate::chain::chain;
use crate::telemetry;

/// How often files are looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);
/// A client that has sent something is replaced when it is so old, a look before its connections are a minute old: names are
/// resolved anew.
const CLIENT_AGE: Duration = Duration::from_secs(55);

/// A longer overlap is as good as none, and adding it to a time must not overflow.
const LONGEST_OVERLAP: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// What requests are made of. One that was begun with it goes on with it.
pub(super) struct Live {
    pub(super) client: Client,
    pub(super) secrets: Secrets,
    pub(super) headers: HeaderMap,
}

/// Keeps the [`Live`] of one sink.
pub(super) struct Keeper {
    config: WebhookConfig,
    https: bool,
    guard: Guard,
    live: RwLock<Arc<Live>>,
    /// Whether something was sent with the client.
    used: AtomicBool,
    state: Mutex<State>,
}

struct State {
    stamps: Stamps,
    tls: Tls,
    /// The secrets in the order of the configuration, each with its text if it came from a file.
    current: Vec<(Secret, Option<String>)>,
    /// Secrets that their files no longer hold, with their texts, and until when they sign.
    retired: Vec<(Secret, String, Instant)>,
    headers: HeaderMap,
    client_made: Instant,
}

/// What a change of a file changes: when it was written, how long it is, which file it is.
type Stamps = BTreeMap<PathBuf, Option<(SystemTime, u64, u64)>>;

/// What the files say.
struct Loaded {
    tls: Tls,
    secrets: Vec<(Secret, Option<String>)>,
    headers: HeaderMap,
}

impl Keeper {
    pub(super) fn new(config: WebhookConfig, https: bool, guard: Guard) -> Result<Self, WebhookConfigError> {
        // Before the files are read: what changes in between is read again.
        let stamps = stamps(&config);
        let Loaded { tls, secrets, headers } = load(&config, https)?;
        let now = Instant::now();
        let state = State { stamps, tls, current: secrets, retired: Vec::new(), headers, client_made: now };
        let live = state.live(client(&config, state.tls.config.clone(), guard.clone())?)?;
        let keeper = Self {
            config,
            https,
            guard,
            live: RwLock::new(Arc::new(live)),
            used: AtomicBool::new(false),
            state: Mutex::new(state),
        };
        keeper.say_ends(&keeper.state().tls);
        Ok(keeper)
    }

    pub(super) fn config(&self) -> &WebhookConfig {
        &self.config
    }

    /// What to send with now.
    pub(super) fn live(&self) -> Arc<Live> {
        self.used.store(true, Ordering::Relaxed);
        Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at the files, at the secrets that go out and at the client's age.
    pub(super) fn look(&self, now: Instant) {
        let mut state = self.state();
        let changed = self.reload(&mut state, now);
        let before = state.retired.len();
        state.retired.retain(|(_, _, until)| now < *until);
        let aged = now.saturating_duration_since(state.client_made) >= CLIENT_AGE;
        let aged = aged && self.used.swap(false, Ordering::Relaxed);
        self.say_ends(&state.tls);
        if changed || aged {
            match client(&self.config, state.tls.config.clone(), self.guard.clone()) {
                Ok(client) => {
                    state.client_made = now;
                    self.swap(&state, client);
                }
                Err(error) => {
                    // The next look tries again.
                    state.stamps.clear();
                    tracing::error!(
                        consumer = self.config.name.as_str(),
                        error = chain(&error),
                        "no new HTTP client; the old one goes on"
                    );
                }
            }
        } else if state.retired.len() < before {
            let client = self.live.read().unwrap_or_else(PoisonError::into_inner).client.clone();
            self.swap(&state, client);
        }
    }

    /// Reads all files anew if one has changed; what cannot be used changes nothing. True = there is something new.
    fn reload(&self, state: &mut State, now: Instant) -> bool {
        let stamps = stamps(&self.config);
        if stamps == state.stamps {
            return false;
        }
        state.stamps = stamps;
        let consumer = self.config.name.as_str();
        match load(&self.config, self.https) {
            Ok(Loaded { tls, secrets, headers }) => {
                state.retire(&secrets, now + self.config.secret_overlap.min(LONGEST_OVERLAP));
                (state.tls, state.current, state.headers) = (tls, secrets, headers);
                tracing::info!(consumer, "the webhook's files have changed and were read");
                true
            }
            Err(error) => {
                tracing::error!(
                    consumer,
                    error = chain(&error),
                    "the webhook's files have changed and cannot be used; what they said before goes on"
                );
                false
            }
        }
    }

    fn swap(&self, state: &State, client: Client) {
        if let Ok(live) = state.live(client) {
            *self.live.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(live);
        }
    }

    fn say_ends(&self, tls: &Tls) {
        for (what, end) in &tls.ends {
            telemetry::certificate_ends(&self.config.name, what, *end);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn live(&self, client: Client) -> Result<Live, WebhookConfigError> {
        let signing = self
            .current
            .iter()
            .map(|(secret, _)| secret)
            .chain(self.retired.iter().map(|(secret, _, _)| secret));
        let secrets = signing.cloned().fold(None, |all: Option<Secrets>, secret| match all {
            None => Some(Secrets::new(secret)),
            Some(all) => Some(all.and(secret)),
        });
        Ok(Live {
            client,
            secrets: secrets.ok_or(WebhookConfigError::NoSecret)?,
            headers: self.headers.clone(),
        })
    }

    /// What the files no longer hold goes on signing until then, and what they hold again no longer goes out.
    fn retire(&mut self, secrets: &[(Secret, Option<String>)], until: Instant) {
        let holds = |text: &String| secrets.iter().any(|(_, other)| other.as_ref() == Some(text));
        let given = self.current.iter().filter_map(|(secret, text)| Some((secret, text.as_ref()?)));
        self.retired.extend(given.map(|(secret, text)| (secret.clone(), text.clone(), until)));
        self.retired.retain(|(_, text, _)| !holds(text));
    }
}

fn load(config: &WebhookConfig, https: bool) -> Result<Loaded, WebhookConfigError> {
    let identity = config.client_certificate_file.clone().zip(config.client_key_file.clone());
    let tls = tls::load(https, &TlsFiles { ca: config.ca_file.clone(), identity })?;
    let secrets = config.secrets.iter().map(secret).collect::<Result<Vec<_>, _>>()?;
    if secrets.is_empty() {
        return Err(WebhookConfigError::NoSecret);
    }
    if secrets.iter().any(|(secret, _)| !secret.can_sign()) {
        return Err(WebhookConfigError::PublicKey);
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &config.headers {
        headers.append(name.clone(), header(value)?);
    }
    Ok(Loaded { tls, secrets, headers })
}

fn secret(credential: &Credential<Secret>) -> Result<(Secret, Option<String>), WebhookConfigError> {
    match credential {
        Credential::Given(secret) => Ok((secret.clone(), None)),
        Credential::File(path) => {
            let text = String::from_utf8_lossy(&tls::read(path)?).trim().to_owned();
            let secret = Secret::parse(&text)
                .map_err(|source| WebhookConfigError::Secret { path: path.clone(), source })?;
            Ok((secret, Some(text)))
        }
    }
}

fn header(credential: &Credential<HeaderValue>) -> Result<HeaderValue, WebhookConfigError> {
    let mut value = match credential {
        Credential::Given(value) => value.clone(),
        Credential::File(path) => {
            let bytes = tls::read(path)?;
            HeaderValue::from_bytes(bytes.trim_ascii_end())
                .map_err(|_| WebhookConfigError::HeaderValue { path: path.clone() })?
        }
    };
    // Neither shown by `Debug`, nor kept in the tables of HTTP/2.
    value.set_sensitive(true);
    Ok(value)
}

fn stamps(config: &WebhookConfig) -> Stamps {
    let of_secrets = config.secrets.iter().filter_map(Credential::file);
    let of_headers = config.headers.iter().filter_map(|(_, value)| value.file());
    let of_tls = [&config.ca_file, &config.client_certificate_file, &config.client_key_file];
    let paths = of_secrets.chain(of_headers).chain(of_tls.into_iter().flatten());
    paths.map(|path| (path.clone(), stamp(path))).collect()
}

fn stamp(path: &PathBuf) -> Option<(SystemTime, u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Some((metadata.modified().ok()?, metadata.len(), inode))
}

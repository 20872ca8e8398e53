//! Where and how a consumer's events are posted, and what cannot be set up like that.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use outbox_sdk::webhook::{Format, Secret, SecretError, Secrets, Source};
use reqwest::Url;

use super::guard::{Network, Policy, Refused};
use super::reserved::Reserved;
use super::tls::TlsError;

/// A value that is given, or that a file holds. A file is read again when it changes; one that cannot be used keeps the last
/// good value and is logged.
#[derive(Clone)]
pub enum Credential<T> {
    /// As long as the sink lives.
    Given(T),
    /// What the file says; white space at its end is dropped.
    File(PathBuf),
}

impl<T> Credential<T> {
    /// The file to watch.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::Given(_) => None,
            Self::File(path) => Some(path),
        }
    }
}

impl<T> From<T> for Credential<T> {
    fn from(value: T) -> Self {
        Self::Given(value)
    }
}

/// Where and how a consumer's events are posted. Its `Debug` output shows neither the URL nor secrets or headers.
#[derive(Clone)]
#[non_exhaustive]
pub struct WebhookConfig {
    /// What logs and metrics call it: the consumer's name.
    pub name: String,
    /// The receiver's address: `https`, or `http` together with `allow_private_addresses` or `allow_networks`. No user, no
    /// password.
    pub url: String,
    /// The secrets that sign each delivery; several while they rotate.
    pub secrets: Vec<Credential<Secret>>,
    /// For how long a secret that its file no longer holds goes on signing beside the new one, so that receivers may follow
    /// later; default 24 h. A restart ends it.
    pub secret_overlap: Duration,
    /// Headers of every request beside the relay's own.
    pub headers: Vec<(HeaderName, Credential<HeaderValue>)>,
    /// Whether loopback, private and other addresses outside the public internet may be dialled, and plain `http` used;
    /// default false. Not those at which clouds hand out credentials.
    pub allow_private_addresses: bool,
    /// Networks outside the public internet that may be dialled, also by plain `http`, which then dials nothing else; none by
    /// default. Where clouds hand out credentials, only the address by itself counts.
    pub allow_networks: Vec<Network>,
    /// The time for name, connection and TLS handshake; default 5 s; less than `timeout`.
    pub connect_timeout: Duration,
    /// The time for a whole attempt; default 15 s; keep it below the relay's lease.
    pub timeout: Duration,
    /// The form of the body; default CloudEvents.
    pub format: Format,
    /// What a CloudEvent says about where it comes from.
    pub source: Source,
    /// Whether error texts quote up to 2 KiB of what the receiver says, control characters escaped; default false, since it may
    /// be anything, parts of the event included.
    pub keep_response: bool,
    /// The authorities (PEM) that may have signed the receiver's certificate, in the place of the machine's.
    pub ca_file: Option<PathBuf>,
    /// The certificate (PEM, its chain behind it) that the relay shows, with `client_key_file`.
    pub client_certificate_file: Option<PathBuf>,
    /// The private key (PEM) of `client_certificate_file`.
    pub client_key_file: Option<PathBuf>,
}

impl WebhookConfig {
    /// A receiver with the defaults.
    #[must_use]
    pub fn new(url: impl Into<String>, secrets: impl Into<Secrets>) -> Self {
        let secrets = secrets.into().into_iter().map(Credential::Given).collect();
        Self::with_credentials(url.into(), secrets)
    }

    /// As [`new`](Self::new), with secrets that may lie in files.
    #[must_use]
    pub fn with_credentials(url: String, secrets: Vec<Credential<Secret>>) -> Self {
        Self {
            name: String::new(),
            url,
            secrets,
            secret_overlap: Duration::from_secs(24 * 3600),
            headers: Vec::new(),
            allow_private_addresses: false,
            allow_networks: Vec::new(),
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(15),
            format: Format::default(),
            source: Source::default(),
            keep_response: false,
            ca_file: None,
            client_certificate_file: None,
            client_key_file: None,
        }
    }

    /// The URL and what may be dialled for it, if all that can be told without IO fits.
    pub(super) fn checked(&self) -> Result<(Url, Policy), WebhookConfigError> {
        // The parser's error says nothing that helps more, and is not kept.
        let url = Url::parse(&self.url).map_err(|_| WebhookConfigError::Url)?;
        let plain_http = match url.scheme() {
            "https" => false,
            "http" if self.allow_private_addresses || !self.allow_networks.is_empty() => true,
            "http" => return Err(WebhookConfigError::PlainHttp),
            other => return Err(WebhookConfigError::Scheme(other.to_owned())),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(WebhookConfigError::UserInfo);
        }
        let (allow_private, networks) = (self.allow_private_addresses, self.allow_networks.clone());
        let policy = Policy { allow_private, networks, plain_http };
        let host = url.host_str().ok_or(WebhookConfigError::Url)?;
        policy.check_literal(host).map_err(|Refused| WebhookConfigError::PrivateAddress)?;
        if self.connect_timeout.is_zero() || self.connect_timeout >= self.timeout {
            return Err(WebhookConfigError::Timeouts);
        }
        if self.client_certificate_file.is_some() != self.client_key_file.is_some() {
            return Err(WebhookConfigError::HalfIdentity);
        }
        if plain_http && (self.ca_file.is_some() || self.client_certificate_file.is_some()) {
            return Err(WebhookConfigError::TlsWithoutTls);
        }
        for (name, _) in &self.headers {
            Reserved::check(name).map_err(|why| WebhookConfigError::Header { name: name.clone(), why })?;
        }
        Ok((url, policy))
    }
}

impl fmt::Debug for WebhookConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookConfig")
            .field("name", &self.name)
            .field("allow_private_addresses", &self.allow_private_addresses)
            .field("allow_networks", &self.allow_networks)
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .field("format", &self.format)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// Why a webhook cannot be set up like this. The texts never repeat the URL, which may hold a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookConfigError {
    /// The text is not a URL.
    #[error("the webhook's url is not a URL: write it in full, such as `https://crm.example/hooks`")]
    Url,
    /// The URL holds a user or a password.
    #[error(
        "the webhook's url holds a user or a password: leave them out; deliveries are signed with `secrets`"
    )]
    UserInfo,
    /// The URL has a scheme that is not HTTP.
    #[error("the webhook's url has the scheme `{0}`: use `https`")]
    Scheme(String),
    /// Plain HTTP would send the payload readable through the public internet.
    #[error(
        "the webhook's url is plain `http`: use `https`, or set allow_private_addresses = true or list its network in \
         allow_networks if the receiver is internal"
    )]
    PlainHttp,
    /// The URL names an address that may not be dialled.
    #[error(
        "the webhook's url names an address that is not public: set allow_private_addresses = true or list its network in \
         allow_networks if the receiver is internal (where clouds keep credentials, the address by itself)"
    )]
    PrivateAddress,
    /// The time limits contradict each other.
    #[error("the webhook's time limits do not fit: connect_timeout must be above zero and less than timeout")]
    Timeouts,
    /// There is no secret.
    #[error("the webhook has no secret: deliveries are always signed, so give at least one")]
    NoSecret,
    /// Something can only verify.
    #[error(
        "a webhook secret is a public key, which cannot sign: give the private key, which begins with `whsk_`"
    )]
    PublicKey,
    /// A certificate without its key, or the other way round.
    #[error("client_certificate_file and client_key_file belong together: give both, or neither")]
    HalfIdentity,
    /// Certificates for a connection that has none.
    #[error(
        "the webhook's url is plain `http`, which knows no certificates: use `https`, or leave the files out"
    )]
    TlsWithoutTls,
    /// A header that is not the configuration's to set.
    #[error("the header `{name}` cannot be set: {why}")]
    Header {
        /// Its name.
        name: HeaderName,
        /// Why not.
        why: Reserved,
    },
    /// A file holds no secret.
    #[error("the file `{}` holds no webhook secret", path.display())]
    Secret {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        source: SecretError,
    },
    /// A file holds no value of a header.
    #[error("the file `{}` holds no value for a header: write one line of printable text", path.display())]
    HeaderValue {
        /// Which.
        path: PathBuf,
    },
    /// A file cannot be read, or holds no certificates that can be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up: check that this process may open files and sockets")]
    Client(#[source] reqwest::Error),
}

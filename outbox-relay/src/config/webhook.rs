//! `[consumer.webhook]`: where events go, and with what.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use outbox_sdk::webhook::{Format, Secret as SigningSecret};

use super::consumer::Context;
use super::document::{Entry, Value};
use super::reader::{Field, Problem, Section, as_text, read_node};
use super::redact::is_secret_key;
use super::secret::resolve;
use super::units;
use crate::sink::webhook::{Credential, Network, Reserved, WebhookConfig};

const SECRETS_HELP: &str =
    "add secrets = [\"env:NAME\"]; the value is whsec_ and the base64 of 24 to 64 random bytes";
const NAMED_HELP: &str = "write \"env:NAME\" or \"file:PATH\" and keep the secret there";
const NETWORK_HELP: &str = "write a network such as \"10.1.0.0/16\" or \"fd00:1::/64\", or one address";
const HEADER_HELP: &str = "write a name of letters, digits and dashes, such as X-Api-Key = \"env:NAME\"";

/// How long one request may take, unless the webhook or its consumer say otherwise.
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

const FORMATS: &[(&str, Format)] = &[
    ("cloudevents", Format::CloudEvents),
    ("cloudevents-binary", Format::CloudEventsBinary),
    ("plain", Format::Plain),
];

/// `limit` is the consumer's time limit, known unless it was refused: it ends a request too, so it bounds the
/// webhook's own limits, the defaults included.
pub(super) fn webhook(
    mut section: Section<'_>,
    limit: Option<Duration>,
    context: Context<'_>,
) -> Option<WebhookConfig> {
    let url = section.read("url", url);
    let secrets = section.list("secrets", |value| signing_secret(value, context));
    let secret_overlap = section.duration_or_zero("secret_overlap");
    let headers = headers(&mut section, context);
    let allow_private_addresses = section.bool("allow_private_addresses");
    let allow_networks = section.list("allow_networks", network);
    let connect_timeout = section.duration("connect_timeout");
    let timeout = section.duration("timeout");
    let format = section.one_of("format", FORMATS);
    let keep_response = section.bool("keep_response");
    let [ca_file, client_certificate_file, client_key_file] =
        ["ca_file", "client_certificate_file", "client_key_file"]
            .map(|key| section.read(key, |value| path(value, context)));

    let whole =
        timeout.known(limit.map_or(DEFAULT_REQUEST_TIMEOUT, |limit| limit.min(DEFAULT_REQUEST_TIMEOUT)));
    connect_below(&connect_timeout, whole, &section);
    below_consumer(&timeout, limit, &section);
    plain_http(&url, &allow_private_addresses, &allow_networks, &section);
    both_or_neither(&client_certificate_file, &client_key_file, &section);
    if let Field::Given(url, _) = &url
        && url.scheme() == "http"
    {
        for place in [&ca_file, &client_certificate_file].into_iter().filter_map(Field::place) {
            let help = "use https, or leave the file out";
            section.refuse(place.clone(), "`url` is plain http, which knows no certificates", help);
        }
    }

    let url = section.require("url", url, "add url = \"https://...\"");
    let secrets_place = secrets.place().unwrap_or(section.place()).clone();
    let secrets = section.require("secrets", secrets, SECRETS_HELP);
    if secrets.as_ref().is_some_and(Vec::is_empty) {
        let message = "`secrets` is empty, so requests could not be signed";
        section.refuse(secrets_place, message, SECRETS_HELP);
    }
    section.finish();

    let secrets: Vec<_> = secrets?.into_iter().map(|(secret, _)| secret).collect();
    let mut config = WebhookConfig::with_credentials(String::from(url?), secrets);
    config.secret_overlap = secret_overlap.or(config.secret_overlap);
    config.headers = headers;
    config.allow_private_addresses = allow_private_addresses.or(config.allow_private_addresses);
    config.allow_networks = allow_networks.or(Vec::new()).into_iter().map(|(network, _)| network).collect();
    config.timeout = whole.unwrap_or(config.timeout);
    config.connect_timeout = connect_timeout.or(config.connect_timeout.min(config.timeout / 2));
    config.format = format.or(config.format);
    config.source = context.source.clone();
    config.keep_response = keep_response.or(config.keep_response);
    config.ca_file = ca_file.given();
    config.client_certificate_file = client_certificate_file.given();
    config.client_key_file = client_key_file.given();
    Some(config)
}

/// Connecting is a part of the request.
fn connect_below(connect_timeout: &Field<Duration>, whole: Option<Duration>, section: &Section<'_>) {
    if let (Field::Given(connect, place), Some(whole)) = (connect_timeout, whole)
        && *connect >= whole
    {
        let [connect, whole] = [*connect, whole].map(units::show);
        let message = format!("`connect_timeout` ({connect}) is not below `timeout` ({whole})");
        section.refuse(place.clone(), message, "lower it, or raise `timeout` of the [consumer.webhook]");
    }
}

fn below_consumer(timeout: &Field<Duration>, limit: Option<Duration>, section: &Section<'_>) {
    if let (Field::Given(timeout, place), Some(limit)) = (timeout, limit)
        && *timeout > limit
    {
        let [timeout, limit] = [*timeout, limit].map(units::show);
        let message =
            format!("`timeout` of the webhook ({timeout}) is above `timeout` of its consumer ({limit})");
        section.refuse(place.clone(), message, "lower this one, or raise `timeout` of the [[consumer]]");
    }
}

fn plain_http<T: Clone>(
    url: &Field<reqwest::Url>,
    allow_private_addresses: &Field<bool>,
    allow_networks: &Field<Vec<T>>,
    section: &Section<'_>,
) {
    if let (Field::Given(url, place), Some(false), Some(true)) = (
        url,
        allow_private_addresses.known(false),
        allow_networks.known(Vec::new()).map(|networks| networks.is_empty()),
    ) && url.scheme() == "http"
    {
        let help = "use https; plain http is for loopback and internal receivers, with allow_private_addresses = true or \
                    allow_networks";
        section.refuse(place.clone(), "`url` is plain http, so events would travel readable for all", help);
    }
}

fn both_or_neither(certificate: &Field<PathBuf>, key: &Field<PathBuf>, section: &Section<'_>) {
    let (given, missing) = match (certificate, key) {
        (Field::Given(_, place), Field::Absent) => (place, "client_key_file"),
        (Field::Absent, Field::Given(_, place)) => (place, "client_certificate_file"),
        _ => return,
    };
    let message = format!("`{missing}` is missing: a certificate and its key belong together");
    section.refuse(given.clone(), message, format!("add {missing} = \"...\""));
}

fn url(value: &Value) -> Result<reqwest::Url, Problem> {
    const HELP: &str = "write the receiver's address, such as \"https://crm.example/hooks\"";
    let url = reqwest::Url::parse(as_text(value)?)
        .map_err(|error| Problem::new(format!("is not a URL: {error}"), HELP))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Problem::new(
            format!("has the scheme `{}`", url.scheme()),
            "use https, or http for internal receivers",
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Problem::new(
            "contains a user or password",
            "remove it; requests are signed with `secrets`",
        ));
    }
    Ok(url)
}

fn network(value: &Value) -> Result<Network, Problem> {
    let text = as_text(value)?;
    text.parse().map_err(|error| Problem::new(format!("is not a network: {error}"), NETWORK_HELP))
}

/// A relative path begins where the configuration lies.
fn path(value: &Value, context: Context<'_>) -> Result<PathBuf, Problem> {
    let path = context.folder.join(as_text(value)?);
    match std::fs::File::open(&path) {
        Ok(_) => Ok(path),
        Err(error) => {
            let help = "write the path of a PEM file that the relay may read";
            Err(Problem::new(format!("cannot be read: {}", error.kind()), help))
        }
    }
}

/// What a text names: a value that stays, or a file that is read again when it changes. `None` when it names nothing.
fn named(text: &str, context: Context<'_>) -> Option<Result<(String, Option<PathBuf>), Problem>> {
    let found = resolve(text, context.env, context.folder)?;
    let file = text.strip_prefix("file:").map(|path| context.folder.join(path));
    Some(found.map(|secret| (secret.expose().to_owned(), file)).map_err(|error| {
        let help = "set the variable or write the file, or name another one by \"env:NAME\" or \"file:PATH\"";
        Problem::new(format!("cannot be resolved: {error}"), help)
    }))
}

fn signing_secret(value: &Value, context: Context<'_>) -> Result<Credential<SigningSecret>, Problem> {
    let Some(found) = named(as_text(value)?, context) else {
        return Err(Problem::new("is a secret in plain sight", NAMED_HELP));
    };
    let (text, file) = found?;
    let secret = SigningSecret::parse(&text)
        .map_err(|error| Problem::new("names a value that is not a signing secret", error.to_string()))?;
    if !secret.can_sign() {
        let help = "give the receiver this public key, and name its private key here: `whsk_` and base64";
        return Err(Problem::new("names a public key, which cannot sign", help));
    }
    Ok(file.map_or(Credential::Given(secret), Credential::File))
}

/// `[consumer.webhook.headers]`: names to values, of which secret ones are named as elsewhere.
fn headers(section: &mut Section<'_>, context: Context<'_>) -> Vec<(HeaderName, Credential<HeaderValue>)> {
    let findings = section.findings();
    let Some(table) = section.table("headers", "[consumer.webhook.headers]") else { return Vec::new() };
    let mut headers = Vec::new();
    for (key, Entry { key: place, node }) in table.entries() {
        let problem = match HeaderName::try_from(key.as_str()) {
            Err(_) => Some(Problem::new("is not the name of a header", HEADER_HELP)),
            Ok(name) => Reserved::check(&name).err().map(|why| {
                let help = why.to_string();
                Problem::new("cannot be set", help)
            }),
        };
        if let Some(Problem { message, help }) = problem {
            findings.push(super::error::Finding::new(place, format!("the header `{key}` {message}"), help));
            continue;
        }
        let value =
            read_node(&format!("the header `{key}`"), node, |value| header(&key, value, context), findings);
        if let (Ok(name), Some(value)) = (HeaderName::try_from(key.as_str()), value.given()) {
            headers.push((name, value));
        }
    }
    headers
}

fn header(key: &str, value: &Value, context: Context<'_>) -> Result<Credential<HeaderValue>, Problem> {
    let text = as_text(value)?;
    let (text, file) = match named(text, context) {
        Some(found) => found?,
        None if is_secret_header(key) => return Err(Problem::new("is a secret in plain sight", NAMED_HELP)),
        None => (text.to_owned(), None),
    };
    let value = HeaderValue::try_from(text.trim_end()).map_err(|_| {
        Problem::new("has a value that no header can have", "write one line of printable text")
    })?;
    Ok(file.map_or(Credential::Given(value), Credential::File))
}

fn is_secret_header(key: &str) -> bool {
    let key = key.to_lowercase();
    is_secret_key(&key) || matches!(key.as_str(), "authorization" | "cookie") || key.contains("key")
}

//! The HTTP client of a sink.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, redirect};
use rustls::ClientConfig;

use super::config::{WebhookConfig, WebhookConfigError};
use super::guard::Guard;

const USER_AGENT: &str = concat!("outbox-relay/", env!("CARGO_PKG_VERSION"));
/// What an answer's headers may come to over HTTP/2; over HTTP/1.1 the limit is hyper's own, 400 KiB.
const MAX_HEADERS: u32 = 64 * 1024;

/// A client with connections of its own. It decompresses nothing, asks no proxy and follows no redirect.
///
/// # Errors
///
/// The process can open no more files or sockets.
pub(super) fn client(
    config: &WebhookConfig,
    tls: ClientConfig,
    guard: Guard,
) -> Result<Client, WebhookConfigError> {
    Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(USER_AGENT)
        .redirect(redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .dns_resolver(Arc::new(guard))
        .connect_timeout(config.connect_timeout)
        .timeout(config.timeout)
        // An idle connection is not kept for longer than a name may be believed.
        .pool_idle_timeout(Duration::from_secs(60))
        .http2_max_header_list_size(MAX_HEADERS)
        // A peer that vanished would otherwise fail every request that shares its connection.
        .http2_keep_alive_interval(Duration::from_secs(10))
        .http2_keep_alive_timeout(Duration::from_secs(5))
        .build()
        .map_err(WebhookConfigError::Client)
}

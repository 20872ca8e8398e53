//! The signature of a delivery: Standard Webhooks, `v1` (HMAC-SHA256) and `v1a` (ed25519), several secrets while one rotates.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::secret::{Message, Secrets, Version};

/// How far the sender's clock may be from the receiver's, in either direction.
pub const DEFAULT_TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// How many signatures of a delivery are looked at: a sender makes one for each of its few secrets.
const MAX_SIGNATURES: usize = 32;

/// The value of `webhook-signature` for these bytes: `v1,<base64>` for each shared secret, `v1a,<base64>` for each private
/// key, nothing for a public key.
///
/// ```
/// use outbox_sdk::webhook::{Secret, sign};
///
/// let secrets = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?.into();
/// let signature = sign(&secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
/// assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
/// # Ok::<(), outbox_sdk::webhook::SecretError>(())
/// ```
#[must_use]
pub fn sign(secrets: &Secrets, id: &str, unix_seconds: i64, body: &[u8]) -> String {
    let timestamp = unix_seconds.to_string();
    let message = Message { id, timestamp: &timestamp, body };
    let signatures = secrets.0.iter().filter_map(|secret| secret.sign(message));
    signatures.collect::<Vec<_>>().join(" ")
}

/// Checks a signature over exactly these bytes, then the age of the delivery.
///
/// `id`, `timestamp` and `signature` are the three headers as they arrived. One valid signature of one secret or key is
/// enough; entries of versions that none of them has are skipped. The comparison with a shared secret takes the same time wherever the texts differ. The
/// age is judged only after the signature, so only a holder of the secret learns about the clock.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
///
/// use outbox_sdk::webhook::{Secrets, Secret, VerifyError, sign, verify};
///
/// let secrets: Secrets = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?.into();
/// let signature = sign(&secrets, "msg_1", 1_614_265_330, b"{}");
/// let (now, tolerance) = (UNIX_EPOCH + Duration::from_secs(1_614_265_333), Duration::from_secs(300));
/// assert_eq!(verify(&secrets, "msg_1", "1614265330", &signature, b"{}", now, tolerance), Ok(()));
/// assert!(verify(&secrets, "msg_1", "1614265330", &signature, b"{ }", now, tolerance).is_err());
/// # Ok::<(), outbox_sdk::webhook::SecretError>(())
/// ```
///
/// # Errors
///
/// [`VerifyError`] says what failed.
pub fn verify(
    secrets: &Secrets,
    id: &str,
    timestamp: &str,
    signature: &str,
    body: &[u8],
    now: SystemTime,
    tolerance: Duration,
) -> Result<(), VerifyError> {
    let sent_at = unix_seconds(timestamp).ok_or(VerifyError::Timestamp)?;
    let understood = |version: Version| secrets.0.iter().any(|secret| secret.version() == version);
    let offered: Vec<(Version, Vec<u8>)> = signature
        .split_ascii_whitespace()
        .filter_map(|entry| entry.split_once(','))
        .filter_map(|(version, encoded)| Some((Version::of(version)?, STANDARD.decode(encoded).ok()?)))
        .filter(|(version, _)| understood(*version))
        .take(MAX_SIGNATURES)
        .collect();
    if offered.is_empty() {
        return Err(VerifyError::NoSignature);
    }
    let message = Message { id, timestamp, body };
    let mut valid = false;
    for secret in &secrets.0 {
        let own = offered.iter().filter(|(version, _)| *version == secret.version());
        valid |= secret.verifies(message, own.map(|(_, bytes)| bytes.as_slice()));
    }
    if !valid {
        return Err(VerifyError::Mismatch);
    }
    let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if now.abs_diff(sent_at) <= tolerance.as_secs() {
        Ok(())
    } else if sent_at < now {
        Err(VerifyError::TooOld { seconds: now - sent_at })
    } else {
        Err(VerifyError::InTheFuture { seconds: sent_at - now })
    }
}

/// Digits only: a sign would be another text for the same moment.
fn unix_seconds(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Why a signature was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The timestamp is not a number.
    #[error("`webhook-timestamp` is not a number of Unix seconds: send it as the sender signed it")]
    Timestamp,
    /// There is no signature of a version that is understood.
    #[error(
        "`webhook-signature` holds no signature of a version that is known here: sign `v1,<base64>` with a `whsec_` secret, \
         or `v1a,<base64>` with a `whsk_` key whose `whpk_` key the receiver has"
    )]
    NoSignature,
    /// No signature belongs to these bytes and a known secret.
    #[error(
        "no signature matches: check that both sides hold the same secret, \
         and that nothing between them changes the body"
    )]
    Mismatch,
    /// The delivery was signed too long ago.
    #[error(
        "the delivery was signed {seconds} s ago, which is too long: sign each attempt anew and check both clocks"
    )]
    TooOld {
        /// Its age in seconds.
        seconds: u64,
    },
    /// The delivery was signed in the future.
    #[error("the delivery was signed {seconds} s in the future: check the clocks of sender and receiver")]
    InTheFuture {
        /// By how many seconds.
        seconds: u64,
    },
}

#[cfg(test)]
mod tests;

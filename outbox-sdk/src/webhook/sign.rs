//! The signature of a delivery: Standard Webhooks, HMAC-SHA256, several secrets while one rotates.

use std::fmt;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

/// How far the sender's clock may be from the receiver's, in either direction.
pub const DEFAULT_TOLERANCE: Duration = Duration::from_secs(5 * 60);

const PREFIX: &str = "whsec_";
const VERSION: &str = "v1";

/// A secret that sender and receiver share. Its `Debug` output shows nothing of it.
///
/// ```
/// use outbox_sdk::webhook::Secret;
///
/// let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
/// assert_eq!(format!("{secret:?}"), "Secret(..)");
/// # Ok::<(), outbox_sdk::webhook::SecretError>(())
/// ```
#[derive(Clone)]
pub struct Secret(Hmac<Sha256>);

impl Secret {
    /// Reads `whsec_` and the base64 of 24 to 64 bytes. White space around it, such as the line end of a file, is
    /// ignored.
    ///
    /// # Errors
    ///
    /// [`SecretError`] says what is wrong, without repeating the text.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(SecretError::Prefix)?;
        // The decoder's error names a byte of the secret, so it is not kept.
        let key = STANDARD.decode(encoded).map_err(|_| SecretError::Base64)?;
        if !(24..=64).contains(&key.len()) {
            return Err(SecretError::Length { bytes: key.len() });
        }
        Hmac::new_from_slice(&key).map(Self).map_err(|_| SecretError::Length { bytes: key.len() })
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why a text is not a secret. Never repeats the text.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The prefix is missing.
    #[error("a webhook secret begins with `whsec_`: write `whsec_` and the base64 of 24 to 64 random bytes")]
    Prefix,
    /// The rest is not base64.
    #[error(
        "what follows `whsec_` is not base64: use the standard alphabet with padding, \
         as `openssl rand -base64 32` prints it"
    )]
    Base64,
    /// The key is too short to be safe, or too long.
    #[error(
        "the webhook secret has {bytes} bytes: use 24 to 64 random bytes, such as `openssl rand -base64 32`"
    )]
    Length {
        /// The number of decoded bytes.
        bytes: usize,
    },
    /// No secret was given.
    #[error("no webhook secret is given: deliveries are always signed, so give at least one")]
    Empty,
}

/// As `Display`, since a `main` that returns the error prints this form.
impl fmt::Debug for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The secrets in use: one, or several while one rotates. Never empty.
///
/// A sender signs with all of them and a receiver accepts any of them, so a rotation is: add the new secret on one
/// side, then on the other, then remove the old one in the same way.
#[derive(Debug, Clone)]
pub struct Secrets(Vec<Secret>);

impl Secrets {
    /// One secret.
    #[must_use]
    pub fn new(secret: Secret) -> Self {
        Self(vec![secret])
    }

    /// One more secret, while they rotate.
    #[must_use]
    pub fn and(mut self, secret: Secret) -> Self {
        self.0.push(secret);
        self
    }

    /// Reads secrets as [`Secret::parse`] does.
    ///
    /// ```
    /// use outbox_sdk::webhook::{SecretError, Secrets};
    ///
    /// let secrets = Secrets::parse(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])?;
    /// assert_eq!(Secrets::parse([""; 0]).unwrap_err(), SecretError::Empty);
    /// # Ok::<(), SecretError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first [`SecretError`], or [`SecretError::Empty`] when there are none.
    pub fn parse<I>(texts: I) -> Result<Self, SecretError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let secrets =
            texts.into_iter().map(|text| Secret::parse(text.as_ref())).collect::<Result<Vec<_>, _>>()?;
        if secrets.is_empty() { Err(SecretError::Empty) } else { Ok(Self(secrets)) }
    }
}

impl From<Secret> for Secrets {
    fn from(secret: Secret) -> Self {
        Self::new(secret)
    }
}

/// The value of `webhook-signature` for these bytes: one `v1,<base64>` for each secret.
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
    let signatures = secrets
        .0
        .iter()
        .map(|secret| format!("{VERSION},{}", STANDARD.encode(secret.mac(id, &timestamp, body))));
    signatures.collect::<Vec<_>>().join(" ")
}

/// Checks a signature over exactly these bytes, then the age of the delivery.
///
/// `id`, `timestamp` and `signature` are the three headers as they arrived. One valid `v1` signature of one secret is
/// enough; entries of other versions are skipped. The comparison takes the same time wherever the texts differ. The
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
    let offered: Vec<Vec<u8>> = signature
        .split_ascii_whitespace()
        .filter_map(|entry| entry.split_once(','))
        .filter(|(version, _)| *version == VERSION)
        .filter_map(|(_, encoded)| STANDARD.decode(encoded).ok())
        .collect();
    if offered.is_empty() {
        return Err(VerifyError::NoSignature);
    }
    let mut valid = Choice::from(0);
    for secret in &secrets.0 {
        let expected = secret.mac(id, timestamp, body);
        for bytes in &offered {
            valid |= expected.as_slice().ct_eq(bytes);
        }
    }
    if !bool::from(valid) {
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
    #[error("`webhook-signature` holds no `v1,<base64>` signature: sign with a `whsec_` secret")]
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
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_b3V0Ym94LXRlc3Qtc2VjcmV0LW51bWJlci10d28=";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const SENT: i64 = 1_614_265_330;
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn secrets(texts: &[&str]) -> Secrets {
        Secrets::parse(texts).unwrap()
    }

    fn at(seconds: i64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.try_into().unwrap())
    }

    fn check(
        secrets: &Secrets,
        id: &str,
        timestamp: &str,
        signature: &str,
        body: &[u8],
    ) -> Result<(), VerifyError> {
        verify(secrets, id, timestamp, signature, body, at(SENT), DEFAULT_TOLERANCE)
    }

    #[test]
    fn the_published_vector_is_signed_and_verified() {
        let secrets = secrets(&[SECRET]);
        assert_eq!(sign(&secrets, ID, SENT, BODY), SIGNATURE);
        assert_eq!(check(&secrets, ID, "1614265330", SIGNATURE, BODY), Ok(()));
    }

    #[test]
    fn every_changed_part_is_refused() {
        let ours = secrets(&[SECRET]);
        let mismatch = Err(VerifyError::Mismatch);
        assert_eq!(check(&ours, "msg_other", "1614265330", SIGNATURE, BODY), mismatch);
        assert_eq!(check(&ours, ID, "1614265331", SIGNATURE, BODY), mismatch);
        assert_eq!(check(&ours, ID, "01614265330", SIGNATURE, BODY), mismatch);
        assert_eq!(check(&ours, ID, "1614265330", SIGNATURE, br#"{"test":2432232314}"#), mismatch);
        assert_eq!(check(&secrets(&[OTHER]), ID, "1614265330", SIGNATURE, BODY), mismatch);
        let flipped = SIGNATURE.replacen('g', "h", 1);
        assert_eq!(check(&ours, ID, "1614265330", &flipped, BODY), mismatch);
        let cut = format!("v1,{}", STANDARD.encode(&STANDARD.decode(&SIGNATURE[3..]).unwrap()[..31]));
        assert_eq!(check(&ours, ID, "1614265330", &cut, BODY), mismatch);
    }

    #[test]
    fn while_secrets_rotate_either_side_may_be_first() {
        let both = secrets(&[OTHER, SECRET]);
        let signature = sign(&both, ID, SENT, BODY);
        assert_eq!(signature.split(' ').count(), 2);
        for single in [SECRET, OTHER] {
            assert_eq!(check(&secrets(&[single]), ID, "1614265330", &signature, BODY), Ok(()));
            let signature = sign(&secrets(&[single]), ID, SENT, BODY);
            assert_eq!(check(&both, ID, "1614265330", &signature, BODY), Ok(()));
        }
    }

    #[test]
    fn other_versions_are_skipped_and_never_accepted() {
        let ours = secrets(&[SECRET]);
        let mixed = format!("v1a,AAAA v2,x junk {SIGNATURE}");
        assert_eq!(check(&ours, ID, "1614265330", &mixed, BODY), Ok(()));
        let digest = &SIGNATURE[3..];
        for header in
            ["", " ", ",", "v1", "v1,", "v1,!!", digest, &format!("v1a,{digest}"), &format!("V1,{digest}")]
        {
            let refused = check(&ours, ID, "1614265330", header, BODY);
            assert!(
                matches!(refused, Err(VerifyError::NoSignature | VerifyError::Mismatch)),
                "{header}: {refused:?}"
            );
        }
    }

    #[test]
    fn age_is_judged_both_ways_and_only_after_the_signature() {
        let ours = secrets(&[SECRET]);
        let verify_at = |now| verify(&ours, ID, "1614265330", SIGNATURE, BODY, at(now), DEFAULT_TOLERANCE);
        assert_eq!(verify_at(SENT + 300), Ok(()));
        assert_eq!(verify_at(SENT - 300), Ok(()));
        assert_eq!(verify_at(SENT + 301), Err(VerifyError::TooOld { seconds: 301 }));
        assert_eq!(verify_at(SENT - 301), Err(VerifyError::InTheFuture { seconds: 301 }));
        assert_eq!(check(&ours, ID, "5", SIGNATURE, BODY), Err(VerifyError::Mismatch));
    }

    #[test]
    fn no_timestamp_panics() {
        let ours = secrets(&[SECRET]);
        for text in
            ["", "x", "-1", "+1614265330", "1e9", "1614265330.0", "99999999999999999999", " 1614265330"]
        {
            assert_eq!(check(&ours, ID, text, SIGNATURE, BODY), Err(VerifyError::Timestamp), "{text}");
        }
        let far = sign(&ours, ID, i64::MAX, BODY);
        let refused = check(&ours, ID, &i64::MAX.to_string(), &far, BODY);
        assert!(matches!(refused, Err(VerifyError::InTheFuture { .. })));
        let before_epoch = SystemTime::UNIX_EPOCH - Duration::from_secs(9);
        let refused = verify(&ours, ID, "1614265330", SIGNATURE, BODY, before_epoch, DEFAULT_TOLERANCE);
        assert!(matches!(refused, Err(VerifyError::InTheFuture { .. })));
    }

    #[test]
    fn secrets_are_checked_and_never_shown() {
        let of_length = |bytes: usize| Secret::parse(&format!("whsec_{}", STANDARD.encode(vec![7; bytes])));
        assert!(of_length(24).is_ok() && of_length(64).is_ok());
        assert_eq!(of_length(23).unwrap_err(), SecretError::Length { bytes: 23 });
        assert_eq!(of_length(65).unwrap_err(), SecretError::Length { bytes: 65 });
        assert_eq!(Secret::parse("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap_err(), SecretError::Prefix);
        assert_eq!(Secret::parse("whsec_canary-canary").unwrap_err(), SecretError::Base64);
        assert!(Secret::parse(&format!(" {SECRET}\n")).is_ok());
        assert!(!SecretError::Base64.to_string().contains("canary"));
        assert_eq!(format!("{:?}", secrets(&[SECRET])), "Secrets([Secret(..)])");
    }

    #[test]
    fn the_reference_library_and_we_accept_each_other() {
        let theirs = standardwebhooks::Webhook::new(SECRET).unwrap();
        let now = SystemTime::now();
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs().try_into().unwrap();
        let body = "{\"note\":\"é \u{1f600} \u{2028} </script>\",\"n\":1.10}".as_bytes();

        let signature = theirs.sign(ID, seconds, body).unwrap();
        let ours = secrets(&[OTHER, SECRET]);
        assert_eq!(verify(&ours, ID, &seconds.to_string(), &signature, body, now, DEFAULT_TOLERANCE), Ok(()));

        let mut headers = http::HeaderMap::new();
        headers.insert(crate::webhook::WEBHOOK_ID, ID.parse().unwrap());
        headers.insert(crate::webhook::WEBHOOK_TIMESTAMP, seconds.into());
        headers.insert(crate::webhook::WEBHOOK_SIGNATURE, sign(&ours, ID, seconds, body).parse().unwrap());
        theirs.verify(body, &headers).unwrap();
    }
}

//! The secrets and keys of deliveries: read from text, never shown.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
#[cfg(feature = "ed25519")]
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};

const SHARED: &str = "whsec_";
const PRIVATE: &str = "whsk_";
const PUBLIC: &str = "whpk_";

/// A secret that sender and receiver share, or one half of a pair of ed25519 keys (feature `ed25519`): the private key signs
/// at the sender, the public key verifies at the receiver. Its `Debug` output shows nothing of it.
///
/// ```
/// use outbox_sdk::webhook::Secret;
///
/// let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
/// assert_eq!(format!("{secret:?}"), "Secret(..)");
/// # Ok::<(), outbox_sdk::webhook::SecretError>(())
/// ```
#[derive(Clone)]
pub struct Secret(Key);

#[derive(Clone)]
enum Key {
    /// `v1`
    Shared(Hmac<Sha256>),
    /// `v1a`
    #[cfg(feature = "ed25519")]
    Private(Box<SigningKey>),
    #[cfg(feature = "ed25519")]
    Public(VerifyingKey),
}

/// How a signature is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// HMAC-SHA256.
    V1,
    /// Ed25519.
    V1a,
}

impl Version {
    pub(super) fn of(text: &str) -> Option<Self> {
        [Self::V1, Self::V1a].into_iter().find(|version| version.text() == text)
    }

    const fn text(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1a => "v1a",
        }
    }
}

/// What is signed.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) id: &'a str,
    pub(super) timestamp: &'a str,
    pub(super) body: &'a [u8],
}

impl Message<'_> {
    fn parts(&self) -> [&[u8]; 5] {
        [self.id.as_bytes(), b".", self.timestamp.as_bytes(), b".", self.body]
    }
}

impl Secret {
    /// Reads `whsec_` and the base64 of 24 to 64 bytes; with the feature `ed25519` also `whsk_` and the base64 of a private
    /// key (its 32 bytes, or these with the 32 bytes of the public key behind them) and `whpk_` and the base64 of a public
    /// key. White space around it, such as the line end of a file, is ignored.
    ///
    /// # Errors
    ///
    /// [`SecretError`] says what is wrong, without repeating the text.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        if let Some(encoded) = text.strip_prefix(SHARED) {
            let key = bytes(SHARED, encoded)?;
            if !(24..=64).contains(&key.len()) {
                return Err(SecretError::Length { bytes: key.len() });
            }
            let mac = Hmac::new_from_slice(&key).map_err(|_| SecretError::Length { bytes: key.len() })?;
            return Ok(Self(Key::Shared(mac)));
        }
        if let Some(encoded) = text.strip_prefix(PRIVATE) {
            return private(&bytes(PRIVATE, encoded)?);
        }
        match text.strip_prefix(PUBLIC) {
            Some(encoded) => public(&bytes(PUBLIC, encoded)?),
            None => Err(SecretError::Prefix),
        }
    }

    /// Whether a sender can sign with it: a public key only verifies.
    #[must_use]
    pub fn can_sign(&self) -> bool {
        match &self.0 {
            Key::Shared(_) => true,
            #[cfg(feature = "ed25519")]
            Key::Private(_) => true,
            #[cfg(feature = "ed25519")]
            Key::Public(_) => false,
        }
    }

    /// The public half of a private key as `whpk_` and its base64, for receivers; `None` for what has none.
    #[must_use]
    pub fn public_key(&self) -> Option<String> {
        match &self.0 {
            Key::Shared(_) => None,
            #[cfg(feature = "ed25519")]
            Key::Private(key) => Some(format!("{PUBLIC}{}", STANDARD.encode(key.verifying_key().as_bytes()))),
            #[cfg(feature = "ed25519")]
            Key::Public(key) => Some(format!("{PUBLIC}{}", STANDARD.encode(key.as_bytes()))),
        }
    }

    /// Which signatures it makes or verifies.
    pub(super) fn version(&self) -> Version {
        match &self.0 {
            Key::Shared(_) => Version::V1,
            #[cfg(feature = "ed25519")]
            Key::Private(_) | Key::Public(_) => Version::V1a,
        }
    }

    /// The signature with its version in front; `None` from a public key.
    pub(super) fn sign(&self, message: Message<'_>) -> Option<String> {
        let signature = match &self.0 {
            Key::Shared(mac) => STANDARD.encode(code(mac, message)),
            #[cfg(feature = "ed25519")]
            Key::Private(key) => STANDARD.encode(key.sign(&message.parts().concat()).to_bytes()),
            #[cfg(feature = "ed25519")]
            Key::Public(_) => return None,
        };
        Some(format!("{},{signature}", self.version().text()))
    }

    /// Whether one of these is its signature. Of a shared secret, the time tells nothing of where they differ.
    pub(super) fn verifies<'s>(
        &self,
        message: Message<'_>,
        mut signatures: impl Iterator<Item = &'s [u8]>,
    ) -> bool {
        match &self.0 {
            Key::Shared(mac) => {
                let expected = code(mac, message);
                let valid = signatures
                    .fold(Choice::from(0), |valid, signature| valid | expected.as_slice().ct_eq(signature));
                valid.into()
            }
            #[cfg(feature = "ed25519")]
            Key::Private(key) => {
                signatures.any(|signature| is_signed(&key.verifying_key(), message, signature))
            }
            #[cfg(feature = "ed25519")]
            Key::Public(key) => signatures.any(|signature| is_signed(key, message, signature)),
        }
    }
}

fn code(mac: &Hmac<Sha256>, message: Message<'_>) -> [u8; 32] {
    let mut mac = mac.clone();
    for part in message.parts() {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(feature = "ed25519")]
fn is_signed(key: &VerifyingKey, message: Message<'_>, signature: &[u8]) -> bool {
    Signature::from_slice(signature)
        .is_ok_and(|signature| key.verify_strict(&message.parts().concat(), &signature).is_ok())
}

/// The decoder's error names a byte of the secret, so it is not kept.
fn bytes(prefix: &'static str, encoded: &str) -> Result<Vec<u8>, SecretError> {
    STANDARD.decode(encoded).map_err(|_| SecretError::Base64 { prefix })
}

#[cfg(feature = "ed25519")]
fn private(bytes: &[u8]) -> Result<Secret, SecretError> {
    let key = match bytes.len() {
        32 => bytes.try_into().ok().map(SigningKey::from_bytes),
        _ => bytes.try_into().ok().and_then(|pair| SigningKey::from_keypair_bytes(pair).ok()),
    };
    key.map(|key| Secret(Key::Private(Box::new(key)))).ok_or(SecretError::Key { prefix: PRIVATE })
}

#[cfg(feature = "ed25519")]
fn public(bytes: &[u8]) -> Result<Secret, SecretError> {
    let key = bytes.try_into().ok().and_then(|bytes| VerifyingKey::from_bytes(bytes).ok());
    // Of a weak key, one signature fits many messages.
    let key = key.filter(|key| !key.is_weak()).ok_or(SecretError::Key { prefix: PUBLIC })?;
    Ok(Secret(Key::Public(key)))
}

#[cfg(not(feature = "ed25519"))]
fn private(_: &[u8]) -> Result<Secret, SecretError> {
    Err(SecretError::Unsupported { prefix: PRIVATE })
}

#[cfg(not(feature = "ed25519"))]
fn public(_: &[u8]) -> Result<Secret, SecretError> {
    Err(SecretError::Unsupported { prefix: PUBLIC })
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
        "what follows `{prefix}` is not base64: use the standard alphabet with padding, \
         as `openssl rand -base64 32` prints it"
    )]
    Base64 {
        /// What it began with.
        prefix: &'static str,
    },
    /// The key is too short to be safe, or too long.
    #[error(
        "the webhook secret has {bytes} bytes: use 24 to 64 random bytes, such as `openssl rand -base64 32`"
    )]
    Length {
        /// The number of decoded bytes.
        bytes: usize,
    },
    /// The bytes are no ed25519 key.
    #[error(
        "what follows `{prefix}` is no ed25519 key: write the base64 of its 32 bytes (of a private key also of 64, the \
         public key behind it)"
    )]
    Key {
        /// What it began with.
        prefix: &'static str,
    },
    /// This build has no ed25519.
    #[error("`{prefix}` begins an ed25519 key: build with the feature `ed25519`, or use a `whsec_` secret")]
    Unsupported {
        /// What it began with.
        prefix: &'static str,
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
pub struct Secrets(pub(super) Vec<Secret>);

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

impl IntoIterator for Secrets {
    type Item = Secret;
    type IntoIter = std::vec::IntoIter<Secret>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl From<Secret> for Secrets {
    fn from(secret: Secret) -> Self {
        Self::new(secret)
    }
}

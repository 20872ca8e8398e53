//! Certificates: whom to trust, and what to show; and what a failed handshake is called.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CertificateError, ClientConfig, Error, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::certificate::not_after;

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// There are none to check the receiver's with.
    #[error(
        "this machine's CA certificates cannot be used: install them (the package is often `ca-certificates`), \
         or name a file with SSL_CERT_FILE or ca_file"
    )]
    Roots(#[source] Error),
    /// A file cannot be read.
    #[error("the file `{}` cannot be read ({kind}): check its path and its rights", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        kind: std::io::ErrorKind,
    },
    /// A file holds no certificate.
    #[error("the file `{}` holds no certificate that can be used: write certificates in PEM", path.display())]
    Certificate {
        /// Which.
        path: PathBuf,
    },
    /// A file holds no private key.
    #[error("the file `{}` holds no private key that can be used: write one in PEM, without a password", path.display())]
    Key {
        /// Which.
        path: PathBuf,
    },
    /// Certificate and key are not of one pair.
    #[error("the client certificate and its key cannot be used together: check that they are of one pair")]
    Identity(#[source] Error),
}

/// The files of one sink.
#[derive(Debug, Clone, Default)]
pub(super) struct TlsFiles {
    pub(super) ca: Option<PathBuf>,
    /// Certificate and key.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
}

/// What a sink connects with.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) config: ClientConfig,
    /// When the first of the certificates in a file ends, and what it is for.
    pub(super) ends: Vec<(&'static str, SystemTime)>,
}

/// TLS for a receiver behind `https`, or without any root for one that has none.
///
/// The provider is handed over, not installed for the process: that choice stays the application's. The roots are those of
/// the sink's own file, else the system's, read when the sink is made; `SSL_CERT_FILE` and `SSL_CERT_DIR` name other ones.
/// Without TLS no roots are read, so that a relay in an image without certificates can reach an internal receiver.
///
/// # Errors
///
/// There are no roots, or a file cannot be used.
pub(super) fn load(https: bool, files: &TlsFiles) -> Result<Tls, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Roots)?;
    let mut ends = Vec::new();
    let builder = match &files.ca {
        Some(path) => {
            let certificates = certificates(path)?;
            ends.extend(end("ca", &certificates));
            let mut roots = RootCertStore::empty();
            for certificate in certificates {
                roots.add(certificate).map_err(|_| TlsError::Certificate { path: path.clone() })?;
            }
            builder.with_root_certificates(roots)
        }
        None if https => builder.with_platform_verifier().map_err(TlsError::Roots)?,
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    let mut config = match &files.identity {
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            ends.extend(end("client", &chain));
            let key = PrivateKeyDer::from_pem_slice(&read(key)?)
                .map_err(|_| TlsError::Key { path: key.clone() })?;
            builder.with_client_auth_cert(chain, key).map_err(TlsError::Identity)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Tls { config, ends })
}

/// What is read of a file at most.
const MAX_BYTES: u64 = 1024 * 1024;

/// What a file of certificates, of a key or of a secret holds.
///
/// # Errors
///
/// It cannot be read.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    use std::io::Read as _;
    let failed = |error: std::io::Error| TlsError::File { path: path.to_owned(), kind: error.kind() };
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(failed)?.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refused = || TlsError::Certificate { path: path.to_owned() };
    let found: Vec<_> =
        CertificateDer::pem_slice_iter(&read(path)?).collect::<Result<_, _>>().map_err(|_| refused())?;
    if found.is_empty() { Err(refused()) } else { Ok(found) }
}

fn end(what: &'static str, certificates: &[CertificateDer<'_>]) -> Option<(&'static str, SystemTime)> {
    let first = certificates.iter().filter_map(|certificate| not_after(certificate)).min()?;
    Some((what, first))
}

/// Whether the receiver says that it does not take the certificate that was shown, or that none was.
pub(super) fn is_about_certificate(error: &Error) -> bool {
    use rustls::AlertDescription as Alert;
    matches!(
        error,
        Error::AlertReceived(
            Alert::CertificateRequired
                | Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied
        )
    )
}

/// What went wrong in a handshake, and what to do. The error's own text can name hosts, so it is not repeated.
pub(super) fn describe(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(certificate) => match certificate {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the receiver's certificate has expired: renew it"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "the receiver's certificate is not valid yet: check this machine's clock"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the receiver's certificate is for another name: check the URL's host"
            }
            // The signature is wrong where another authority has the name of a trusted one.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "the receiver's certificate is not signed by an authority that this machine trusts: \
                 install that authority, or name it with ca_file"
            }
            CertificateError::Revoked => "the receiver's certificate is revoked: replace it",
            _ => "the receiver's certificate is not valid: replace it",
        },
        Error::InvalidMessage(_) => {
            "the receiver does not speak TLS on this port: check the URL's scheme and port"
        }
        Error::AlertReceived(_) => {
            "the receiver refused the TLS handshake: check what it expects of its clients, such as a client certificate"
        }
        Error::PeerIncompatible(_) => {
            "the receiver speaks no TLS version or cipher in common: have it offer TLS 1.2 or 1.3"
        }
        _ => "the TLS handshake failed: check the receiver's TLS set-up",
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;

    use super::*;

    #[test]
    fn causes_are_told_apart_and_no_name_is_repeated() {
        let other_name = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("canary.example").unwrap(),
            presented: vec!["canary.example".into()],
        };
        let causes = [
            (Error::InvalidCertificate(CertificateError::Expired), "expired"),
            (Error::InvalidCertificate(CertificateError::NotValidYet), "not valid yet"),
            (Error::InvalidCertificate(other_name), "another name"),
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), "trusts"),
            (Error::InvalidCertificate(CertificateError::Revoked), "revoked"),
            (Error::InvalidCertificate(CertificateError::BadEncoding), "not valid: replace"),
            (Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType), "does not speak TLS"),
            (Error::AlertReceived(rustls::AlertDescription::HandshakeFailure), "refused"),
            (Error::General("canary".into()), "handshake failed"),
        ];
        for (error, expected) in causes {
            let text = describe(&error);
            assert!(text.contains(expected) && !text.contains("canary"), "{error:?}: {text}");
        }
    }
}

//! Certificates: the system's roots, checked with the ring provider; and what a failed handshake is called.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{CertificateError, ClientConfig, Error, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

/// TLS for a receiver behind `https`, or without any root for one that has none.
///
/// The provider is handed over, not installed for the process: that choice stays the application's. The roots are the
/// system's, read when the sink is made; `SSL_CERT_FILE` and `SSL_CERT_DIR` name other ones, so a private authority
/// needs no setting of its own. Without TLS no roots are read, so that a relay in an image without certificates can
/// reach an internal receiver.
///
/// # Errors
///
/// The system has no roots.
pub(super) fn client_config(https: bool) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    let builder = if https {
        builder.with_platform_verifier()?
    } else {
        builder.with_root_certificates(RootCertStore::empty())
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
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
            CertificateError::UnknownIssuer => {
                "the receiver's certificate is not signed by an authority that this machine trusts: \
                 install that authority, or name it with SSL_CERT_FILE"
            }
            CertificateError::Revoked => "the receiver's certificate is revoked: replace it",
            _ => "the receiver's certificate is not valid: replace it",
        },
        Error::InvalidMessage(_) => {
            "the receiver does not speak TLS on this port: check the URL's scheme and port"
        }
        Error::AlertReceived(_) => {
            "the receiver refused the TLS handshake: check what it expects of its clients"
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

//! Client certificates and private authorities, made here.

use std::collections::BTreeSet;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SerialNumber,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use super::*;

struct Authority {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { pem: certificate.pem(), der: certificate.der().clone(), issuer: Issuer::new(params, key) }
    }

    /// Certificate and key, in PEM and in DER.
    fn issue(&self, usage: ExtendedKeyUsagePurpose, serial: u64) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// A client's files, replaced as a renewal does it.
    fn write_client(&self, folder: &Path, serial: u64) {
        let (certificate, key) = self.issue(ExtendedKeyUsagePurpose::ClientAuth, serial);
        for (name, pem) in [("client.pem", certificate.pem()), ("client.key", key.serialize_pem())] {
            std::fs::write(folder.join("new"), pem).unwrap();
            std::fs::rename(folder.join("new"), folder.join(name)).unwrap();
        }
    }
}

/// The certificates that clients have shown, one for each request.
type Shown = Arc<Mutex<Vec<CertificateDer<'static>>>>;

/// A receiver that demands a certificate of this authority and answers 204 to each request of a connection.
async fn demanding(authority: &Authority, protocols: &[&[u8]]) -> (u16, Shown) {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
    let (certificate, key) = authority.issue(ExtendedKeyUsagePurpose::ServerAuth, 1);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let shown = Shown::default();
    let journal = Arc::clone(&shown);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, journal) = (acceptor.clone(), Arc::clone(&journal));
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let client = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
                let (mut request, mut piece) = (Vec::new(), [0; 4096]);
                while let Ok(read @ 1..) = stream.read(&mut piece).await {
                    request.extend_from_slice(&piece[..read]);
                    if request.starts_with(b"PRI * HTTP/2.0") {
                        journal.lock().unwrap().push(client.clone());
                        return;
                    }
                    if request.ends_with(b"}}") {
                        request.clear();
                        journal.lock().unwrap().push(client.clone());
                        if stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (port, shown)
}

fn presenting(port: u16, folder: &Path) -> WebhookConfig {
    let mut config = config(format!("https://localhost:{port}/"));
    config.ca_file = Some(folder.join("ca.pem"));
    config.client_certificate_file = Some(folder.join("client.pem"));
    config.client_key_file = Some(folder.join("client.key"));
    config
}

fn folder(authority: &Authority) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), &authority.pem).unwrap();
    authority.write_client(folder.path(), 100);
    folder
}

#[tokio::test]
async fn a_certificate_is_shown_and_without_one_the_receiver_refuses() {
    let authority = Authority::new();
    let folder = folder(&authority);
    let (port, shown) = demanding(&authority, &[]).await;
    assert_eq!(deliver(&sink(presenting(port, folder.path())), &event()).await, Outcome::Delivered);
    assert_eq!(shown.lock().unwrap().len(), 1);

    let mut anonymous = presenting(port, folder.path());
    (anonymous.client_certificate_file, anonymous.client_key_file) = (None, None);
    let outcome = deliver(&sink(anonymous), &event()).await;
    let Outcome::Unavailable { error, .. } = outcome else { panic!("{outcome:?}") };
    assert!(error.contains("client certificate"), "{error}");

    let mut untrusting = presenting(port, folder.path());
    let other = Authority::new();
    std::fs::write(folder.path().join("other.pem"), other.pem).unwrap();
    untrusting.ca_file = Some(folder.path().join("other.pem"));
    let outcome = deliver(&sink(untrusting), &event()).await;
    let Outcome::Unavailable { error, .. } = outcome else { panic!("{outcome:?}") };
    assert!(error.contains("ca_file"), "{error}");
    assert_eq!(shown.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn http_2_is_spoken_where_the_receiver_offers_it() {
    let authority = Authority::new();
    let folder = folder(&authority);
    let (port, shown) = demanding(&authority, &[b"h2"]).await;
    let outcome = deliver(&sink(presenting(port, folder.path())), &event()).await;
    assert!(matches!(outcome, Outcome::Retry { .. }), "it hangs up on seeing the preface: {outcome:?}");
    assert!(!shown.lock().unwrap().is_empty(), "the preface of HTTP/2 came");
}

#[tokio::test]
async fn a_certificate_that_is_renewed_meanwhile_fails_no_delivery() {
    let authority = Authority::new();
    let folder = folder(&authority);
    let (port, shown) = demanding(&authority, &[]).await;
    let sink = sink(presenting(port, folder.path()));
    let different = || shown.lock().unwrap().iter().map(|der| der.to_vec()).collect::<BTreeSet<_>>().len();
    let started = Instant::now();
    // A half-done renewal, a broken one and a good one: only the good one is seen, by whoever looks at the files.
    let deliver_until = async |enough: &dyn Fn() -> bool| {
        while !enough() {
            assert!(started.elapsed() < Duration::from_secs(60), "the new certificate was never shown");
            assert_eq!(deliver(&sink, &event()).await, Outcome::Delivered);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    deliver_until(&|| different() == 1).await;
    let (half, _) = authority.issue(ExtendedKeyUsagePurpose::ClientAuth, 101);
    std::fs::write(folder.path().join("client.pem"), half.pem()).unwrap();
    sink.keeper.look(Instant::now());
    assert_eq!(deliver(&sink, &event()).await, Outcome::Delivered, "certificate and key are of two pairs");
    std::fs::write(folder.path().join("client.pem"), "no certificate").unwrap();
    sink.keeper.look(Instant::now());
    assert_eq!(deliver(&sink, &event()).await, Outcome::Delivered);
    assert_eq!(different(), 1);
    authority.write_client(folder.path(), 102);
    deliver_until(&|| different() == 2).await;
}

#[tokio::test]
async fn files_that_cannot_be_used_are_refused_when_the_sink_is_made() {
    let authority = Authority::new();
    let folder = folder(&authority);
    let refused = |change: &dyn Fn(&mut WebhookConfig)| {
        let mut config = presenting(1, folder.path());
        change(&mut config);
        WebhookSink::new(config).unwrap_err().to_string()
    };
    std::fs::write(folder.path().join("empty"), "").unwrap();
    let file = |name: &str| Some(folder.path().join(name));
    for (error, part) in [
        (refused(&|config| config.ca_file = file("none")), "cannot be read"),
        (refused(&|config| config.ca_file = file("empty")), "holds no certificate"),
        (refused(&|config| config.client_certificate_file = file("client.key")), "holds no certificate"),
        (refused(&|config| config.client_key_file = file("client.pem")), "holds no private key"),
        (refused(&|config| config.client_certificate_file = file("ca.pem")), "of one pair"),
        (refused(&|config| config.client_key_file = None), "belong together"),
        (refused(&|config| config.url = "http://127.0.0.1/".into()), "knows no certificates"),
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

use super::*;
use crate::webhook::{Secret, SecretError};

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
    for text in ["", "x", "-1", "+1614265330", "1e9", "1614265330.0", "99999999999999999999", " 1614265330"] {
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
    assert_eq!(Secret::parse("whsec_canary-canary").unwrap_err(), SecretError::Base64 { prefix: "whsec_" });
    assert!(Secret::parse(&format!(" {SECRET}\n")).is_ok());
    assert!(!Secret::parse("whsec_canary-canary").unwrap_err().to_string().contains("canary"));
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

/// The first key of RFC 8032, section 7.1.
#[cfg(feature = "ed25519")]
const PRIVATE: &str = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
#[cfg(feature = "ed25519")]
const PAIR: &str =
    "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2DXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGg==";
#[cfg(feature = "ed25519")]
const PUBLIC: &str = "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
/// Made by OpenSSL with that key.
#[cfg(feature = "ed25519")]
const SIGNATURE_V1A: &str =
    "v1a,fldxM4gAKugP6nnt1hdz3sgGfZ6d99nzrMFnZOELIxbzEHoVmAb2ADpkJK7zgPePmPsle0zV9jSeGlHFG2NVAw==";

#[cfg(feature = "ed25519")]
#[test]
fn the_v1a_vector_is_signed_by_the_private_key_and_verified_by_the_public_one() {
    for private in [PRIVATE, PAIR] {
        assert_eq!(sign(&secrets(&[private]), ID, SENT, BODY), SIGNATURE_V1A);
        assert_eq!(
            Secret::parse(private).unwrap().public_key().as_deref(),
            Some(PUBLIC),
            "as the RFC has it"
        );
    }
    for key in [PUBLIC, PRIVATE] {
        assert_eq!(check(&secrets(&[key]), ID, "1614265330", SIGNATURE_V1A, BODY), Ok(()));
    }
    let ours = secrets(&[PUBLIC]);
    let mismatch = Err(VerifyError::Mismatch);
    assert_eq!(check(&ours, "msg_other", "1614265330", SIGNATURE_V1A, BODY), mismatch);
    assert_eq!(check(&ours, ID, "1614265331", SIGNATURE_V1A, BODY), mismatch);
    assert_eq!(check(&ours, ID, "1614265330", SIGNATURE_V1A, b"{}"), mismatch);
    assert_eq!(check(&ours, ID, "1614265330", "v1a,AAAA", BODY), mismatch);
    let as_v1 = SIGNATURE_V1A.replace("v1a,", "v1,");
    assert_eq!(check(&ours, ID, "1614265330", &as_v1, BODY), Err(VerifyError::NoSignature));
}

#[cfg(feature = "ed25519")]
#[test]
fn a_shared_secret_and_a_key_sign_side_by_side_and_a_public_key_does_not() {
    let both = secrets(&[SECRET, PRIVATE]);
    assert_eq!(sign(&both, ID, SENT, BODY), format!("{SIGNATURE} {SIGNATURE_V1A}"));
    for one in [SECRET, PUBLIC] {
        assert_eq!(check(&secrets(&[one]), ID, "1614265330", &sign(&both, ID, SENT, BODY), BODY), Ok(()));
    }
    let public = Secret::parse(PUBLIC).unwrap();
    assert!(!public.can_sign() && Secret::parse(PRIVATE).unwrap().can_sign());
    assert_eq!(sign(&public.into(), ID, SENT, BODY), "");
}

#[cfg(feature = "ed25519")]
#[test]
fn keys_are_checked() {
    let key = |prefix: &str, bytes: &[u8]| {
        Secret::parse(&format!("{prefix}{}", STANDARD.encode(bytes))).map(|_| ()).unwrap_err()
    };
    assert_eq!(key("whsk_", &[7; 31]), SecretError::Key { prefix: "whsk_" });
    assert_eq!(key("whsk_", &[7; 64]), SecretError::Key { prefix: "whsk_" }, "two halves of different pairs");
    assert_eq!(key("whpk_", &[7; 33]), SecretError::Key { prefix: "whpk_" });
    let mut neutral = [0; 32];
    neutral[0] = 1;
    assert_eq!(key("whpk_", &neutral), SecretError::Key { prefix: "whpk_" }, "any signature would fit it");
}

#[test]
fn only_the_first_signatures_are_looked_at() {
    let many = |before: usize| format!("{}{SIGNATURE}", "v1,AAAA ".repeat(before));
    let ours = secrets(&[SECRET]);
    assert_eq!(check(&ours, ID, "1614265330", &many(31), BODY), Ok(()));
    assert_eq!(check(&ours, ID, "1614265330", &many(32), BODY), Err(VerifyError::Mismatch));
}

//! Until when a certificate is valid: the one thing that is read out of it here.

use std::time::{Duration, SystemTime};

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// `notAfter` of a certificate in DER; `None` when it is none.
pub(super) fn not_after(der: &[u8]) -> Option<SystemTime> {
    let (certificate, _) = expect(der, SEQUENCE)?;
    let (body, _) = expect(certificate, SEQUENCE)?;
    // version (absent in version 1), serial number, signature algorithm, issuer, validity.
    let (tag, _, after) = element(body)?;
    let mut rest = if tag == VERSION { after } else { body };
    for _ in ["serial number", "signature algorithm", "issuer"] {
        rest = element(rest)?.2;
    }
    let (validity, _) = expect(rest, SEQUENCE)?;
    let (_, _, rest) = element(validity)?;
    let (tag, text, _) = element(rest)?;
    time(tag, std::str::from_utf8(text).ok()?)
}

fn expect(der: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = element(der)?;
    (tag == wanted).then_some((content, rest))
}

/// Tag, content, and what lies behind.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = digits.iter().fold(0_usize, |length, digit| (length << 8) | usize::from(*digit));
            (length, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `YYMMDDhhmmssZ`, or with four digits of the year.
fn time(tag: u8, text: &str) -> Option<SystemTime> {
    let digits =
        text.strip_suffix('Z').filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?;
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let year: i64 = digits[..2].parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (digits[..4].parse().ok()?, &digits[4..]),
        _ => return None,
    };
    let part = |at: usize| rest[at..at + 2].parse::<u64>().ok();
    let (month, day) = (part(0).filter(|month| (1..=12).contains(month))?, part(2)?);
    let days = days_since_1970(year, i64::try_from(month).ok()?, i64::try_from(day).ok()?);
    let seconds = part(4)? * 3600 + part(6)? * 60 + part(8)?;
    let whole = u64::try_from(days).ok()?.checked_mul(86_400)?.checked_add(seconds)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(whole))
}

/// The proleptic Gregorian calendar, with years that begin in March so that a leap day is the last one.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    year * 365 + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (month * 153 + 2) / 5
        + day
        - 719_469
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(time: Option<SystemTime>) -> Option<u64> {
        time.map(|time| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn both_forms_of_a_time_are_read() {
        assert_eq!(seconds(time(UTC_TIME, "700101000000Z")), Some(0));
        assert_eq!(seconds(time(UTC_TIME, "240229235959Z")), Some(1_709_251_199));
        assert_eq!(seconds(time(UTC_TIME, "491231235959Z")), Some(2_524_607_999));
        assert_eq!(seconds(time(GENERALIZED_TIME, "99991231235959Z")), Some(253_402_300_799));
        assert_eq!(seconds(time(GENERALIZED_TIME, "20261201120000Z")), Some(1_796_126_400));
        for wrong in
            ["", "Z", "2401010000Z", "2401010000000Z", "240101000000", "241301000000Z", "24010100000éZ"]
        {
            assert_eq!(time(UTC_TIME, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_end_of_real_certificates_is_found_and_broken_ones_have_none() {
        let mut params = rcgen::CertificateParams::new(vec!["crm.example".to_owned()]).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        for (year, expected) in [(2031, 1_927_497_600), (2077, 3_379_190_400)] {
            params.not_after = rcgen::date_time_ymd(year, 1, 30);
            let certificate = params.self_signed(&key).unwrap();
            let der = certificate.der();
            assert_eq!(seconds(not_after(der)), Some(expected), "{year}");
            for end in 0..der.len() {
                let _ = not_after(&der[..end]);
                let mut broken = der.to_vec();
                broken[end] ^= 0xff;
                let _ = not_after(&broken);
            }
            assert_eq!(not_after(&der[..20]), None);
        }
    }
}

//! The certificate of a client, and the values of nginx's `$ssl_client_*` variables. They are computed
//! from the certificate on each use, since few configurations ask.

use std::fmt::Write;
use std::time::Duration;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use wire::path::escape_if;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use crate::name::{one_line, rfc2253};

/// Characters in a line of PEM (RFC 7468 section 2).
const PEM_LINE_CHARS: usize = 64;

const DAY_SECONDS: i64 = 24 * 60 * 60;

const MONTHS: &[&str] = &["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The certificate of a client.
#[derive(Debug)]
pub struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// The subject's name in the form of RFC 2253.
    pub subject: String,
    /// The issuer's name in the form of RFC 2253.
    pub issuer: String,
}

impl ClientCertificate {
    /// The certificate at the beginning of a chain; none if it cannot be read.
    pub fn new(chain: &[CertificateDer<'static>]) -> Option<Self> {
        let (_, leaf) = X509Certificate::from_der(chain.first()?).ok()?;
        let (subject, issuer) = (rfc2253(leaf.subject()), rfc2253(leaf.issuer()));
        Some(Self { chain: chain.to_vec(), subject, issuer })
    }

    /// The certificates that the client has shown, its own first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The certificate in DER.
    pub fn der(&self) -> &[u8] {
        self.chain.first().map_or(&[], |leaf| leaf)
    }

    /// The value of `$ssl_client_raw_cert`.
    pub fn pem(&self) -> String {
        let mut text = "-----BEGIN CERTIFICATE-----\n".to_owned();
        for (at, char) in STANDARD.encode(self.der()).chars().enumerate() {
            if at > 0 && at % PEM_LINE_CHARS == 0 {
                text.push('\n');
            }
            text.push(char);
        }
        text + "\n-----END CERTIFICATE-----\n"
    }

    /// The value of `$ssl_client_cert`: lines behind a tab, as in folded header fields.
    pub fn pem_behind_tabs(&self) -> String {
        self.pem().trim_end().replace('\n', "\n\t")
    }

    /// `$ssl_client_escaped_cert`: PEM with all but letters, digits and `-._~` escaped.
    pub fn escaped_pem(&self) -> Vec<u8> {
        let (pem, mut text) = (self.pem(), Vec::new());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        escape_if(pem.as_bytes(), |byte| !is_plain(byte), &mut text);
        text
    }

    /// The value of `$ssl_client_fingerprint`.
    pub fn fingerprint(&self) -> String {
        let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, self.der());
        let mut text = String::new();
        for byte in digest.as_ref() {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// `$ssl_client_serial`: the bytes of the number, without a sign.
    pub fn serial(&self) -> Option<String> {
        let leaf = self.leaf()?;
        let number = leaf.raw_serial();
        let zeros = number.iter().take_while(|&&byte| byte == 0).count();
        let number = &number[zeros.min(number.len().saturating_sub(1))..];
        let mut text = String::new();
        for byte in number {
            let _ = write!(text, "{byte:02X}");
        }
        Some(text)
    }

    /// The value of `$ssl_client_s_dn_legacy`.
    pub fn subject_in_one_line(&self) -> Option<String> {
        Some(one_line(self.leaf()?.subject()))
    }

    /// The value of `$ssl_client_i_dn_legacy`.
    pub fn issuer_in_one_line(&self) -> Option<String> {
        Some(one_line(self.leaf()?.issuer()))
    }

    /// The value of `$ssl_client_v_start`.
    pub fn start(&self) -> Option<String> {
        Some(in_words(self.leaf()?.validity().not_before))
    }

    /// The value of `$ssl_client_v_end`.
    pub fn end(&self) -> Option<String> {
        Some(in_words(self.leaf()?.validity().not_after))
    }

    /// `$ssl_client_v_remain`: whole days. `now` is the time since 1970.
    pub fn remaining_days(&self, now: Duration) -> Option<i64> {
        let end = self.leaf()?.validity().not_after.timestamp();
        let left = end.saturating_sub(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        Some((left / DAY_SECONDS).max(0))
    }

    fn leaf(&self) -> Option<X509Certificate<'_>> {
        X509Certificate::from_der(self.der()).ok().map(|(_, leaf)| leaf)
    }
}

/// A time as OpenSSL prints it: `Nov  3 09:05:00 2026 GMT`.
fn in_words(time: ASN1Time) -> String {
    let time = time.to_datetime();
    let month = MONTHS[usize::from(u8::from(time.month())) - 1];
    let (day, year) = (time.day(), time.year());
    format!("{month} {day:2} {:02}:{:02}:{:02} {year} GMT", time.hour(), time.minute(), time.second())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate with a serial number that begins with a zero byte, and a name with characters that have
    /// to be escaped.
    const CERTIFICATE: &str = "\
         MIICETCCAbigAwIBAgIDAKsBMAoGCCqGSM49BAMCMGcxCzAJBgNVBAYTAkRFMRcwFQYDVQQKDA5Nw7xsbGVyIC8gU29uczEWMAgG\
         A1UECwwBYTAKBgNVBAsMA2IrYzEOMAwGA1UEAwwFYWxpY2UxFzAVBgkqhkiG9w0BCQEWCGFAYi50ZXN0MB4XDTI2MTEyMzE5NTY0\
         NloXDTI5MDEzMTE5NTY0NlowZzELMAkGA1UEBhMCREUxFzAVBgNVBAoMDk3DvGxsZXIgLyBTb25zMRYwCAYDVQQLDAFhMAoGA1UE\
         CwwDYitjMQ4wDAYDVQQDDAVhbGljZTEXMBUGCSqGSIb3DQEJARYIYUBiLnRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQh\
         7BohDEeaSMCDMr0HO5BTcqE7RH2E33MJOS2FyNljCs2TRd2CNClh/CV9ESrhrqEmXhq3R4p7fjccnhUqihrUo1MwUTAdBgNVHQ4E\
         FgQUYlNBrOPNZRIdZgqDONUTBCLC7UQwHwYDVR0jBBgwFoAUYlNBrOPNZRIdZgqDONUTBCLC7UQwDwYDVR0TAQH/BAUwAwEB/zAK\
         BggqhkjOPQQDAgNHADBEAiAU+fweHTkS49ruGINA5CyCmldotac+bpCN/K9J6ngxXQIgHCSeA2QpSNc8X0Nl4+eFEgZmoavFtWPZ\
         Ajr5pdi837E=";

    fn certificate() -> ClientCertificate {
        let der = STANDARD.decode(CERTIFICATE).unwrap();
        ClientCertificate::new(&[CertificateDer::from(der)]).unwrap()
    }

    /// Compared with nginx 1.22.1 and OpenSSL 3.0.
    #[test]
    fn every_value_is_nginx_s() {
        let shown = certificate();
        let name = "emailAddress=a@b.test,CN=alice,OU=b\\+c+OU=a,O=M\\C3\\BCller / Sons,C=DE";
        assert_eq!((shown.subject.as_str(), shown.issuer.as_str()), (name, name));
        let legacy = "/C=DE/O=M\\xC3\\xBCller \\/ Sons/OU=a+OU=b\\+c/CN=alice/emailAddress=a@b.test";
        assert_eq!(shown.subject_in_one_line().as_deref(), Some(legacy));
        assert_eq!(shown.issuer_in_one_line().as_deref(), Some(legacy));
        assert_eq!(shown.serial().as_deref(), Some("AB01"));
        assert_eq!(shown.fingerprint(), "fffdb406ed52fea943e65449fbc742e49c1384b3");
        assert_eq!(shown.start().as_deref(), Some("Nov 23 19:56:46 2026 GMT"));
        assert_eq!(shown.end().as_deref(), Some("Jan 31 19:56:46 2029 GMT"));
        let pem = shown.pem();
        assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\nMIICETCCAbigAwIBAgIDAKsBMAoG"), "{pem}");
        assert!(pem.ends_with("pdi837E=\n-----END CERTIFICATE-----\n"), "{pem}");
        assert!(pem.lines().skip(1).all(|line| line.len() <= 64));
        let escaped = String::from_utf8(shown.escaped_pem()).unwrap();
        assert!(
            escaped.starts_with("-----BEGIN%20CERTIFICATE-----%0AMIICETCC") && escaped.contains("NClh%2FCV9")
        );
        assert!(escaped.ends_with("pdi837E%3D%0A-----END%20CERTIFICATE-----%0A"), "{escaped}");
        let behind_tabs = shown.pem_behind_tabs();
        assert!(behind_tabs.contains("-----\n\tMIIC") && behind_tabs.ends_with("-----END CERTIFICATE-----"));
    }

    #[test]
    fn days_are_counted_down_to_none() {
        let shown = certificate();
        let end = shown.leaf().unwrap().validity().not_after.timestamp().cast_unsigned();
        let remaining = |now: u64| shown.remaining_days(Duration::from_secs(now));
        assert_eq!(
            [remaining(end - 86_401), remaining(end - 86_399), remaining(end + 1)],
            [Some(1), Some(0), Some(0)]
        );
    }
}

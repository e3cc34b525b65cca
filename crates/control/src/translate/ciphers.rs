//! Parses OpenSSL's cipher list format (ciphers(1)), for the suites that Forebay supports.
//!
//! Such a list does not select suites of TLS 1.3, in OpenSSL neither.

use model::CipherSuite;
use model::CipherSuite::{
    EcdheEcdsaAes128Gcm, EcdheEcdsaAes256Gcm, EcdheEcdsaChaCha20, EcdheRsaAes128Gcm, EcdheRsaAes256Gcm,
    EcdheRsaChaCha20,
};

use super::value::Parsed;

/// The order in which OpenSSL lists `ALL`.
const STRONGEST_FIRST: [CipherSuite; 6] = [
    EcdheEcdsaAes256Gcm,
    EcdheRsaAes256Gcm,
    EcdheEcdsaChaCha20,
    EcdheRsaChaCha20,
    EcdheEcdsaAes128Gcm,
    EcdheRsaAes128Gcm,
];

/// The meaning of a name in a list.
enum Meaning {
    /// These supported suites. A group may have no supported suite: `!aNULL` has nothing to remove.
    Suites(Vec<CipherSuite>),
    /// A suite or a group without forward secrecy or authenticated encryption, which are not supported.
    Unavailable,
    /// A suite of TLS 1.3, which such a list does not select.
    OfTls13,
    Unknown,
}

/// The suites that a list selects, and a remark about names without effect. A list without a supported suite
/// is an error.
pub(super) fn parse(text: &str) -> Parsed<(Vec<CipherSuite>, Option<String>)> {
    let mut list = List::default();
    for item in text.split([':', ',', ' ', ';']).filter(|item| !item.is_empty()) {
        list.apply(item);
    }
    if list.active.is_empty() {
        return Err(format!("{text:?} names no cipher suite of TLS 1.2 that is available"));
    }
    let remark = list.remark();
    Ok((list.active, remark))
}

#[derive(Default)]
struct List<'a> {
    active: Vec<CipherSuite>,
    /// The suites that `!` has removed, and that cannot be added again.
    killed: Vec<CipherSuite>,
    unavailable: Vec<&'a str>,
    unknown: Vec<&'a str>,
}

impl<'a> List<'a> {
    fn apply(&mut self, item: &'a str) {
        if let Some(command) = item.strip_prefix('@') {
            if command == "STRENGTH" {
                self.active.sort_by_key(|suite| matches!(suite, EcdheEcdsaAes128Gcm | EcdheRsaAes128Gcm));
            } else if !command.starts_with("SECLEVEL=") {
                self.unknown.push(item);
            }
            return;
        }
        let (operator, name) = match item.as_bytes()[0] {
            operator @ (b'!' | b'-' | b'+') => (operator, &item[1..]),
            _ => (b' ', item),
        };
        let suites = match meaning(name) {
            Meaning::Suites(suites) => suites,
            Meaning::Unavailable if operator == b' ' => return self.unavailable.push(name),
            Meaning::Unavailable | Meaning::OfTls13 => return,
            Meaning::Unknown => return self.unknown.push(name),
        };
        let had: Vec<_> = self.active.iter().copied().filter(|suite| suites.contains(suite)).collect();
        match operator {
            b'!' | b'-' => self.active.retain(|suite| !suites.contains(suite)),
            b'+' => {
                self.active.retain(|suite| !suites.contains(suite));
                self.active.extend(had);
            }
            _ => {
                let is_new = |suite: &CipherSuite| !had.contains(suite) && !self.killed.contains(suite);
                let new: Vec<_> = suites.iter().copied().filter(is_new).collect();
                self.active.extend(new);
            }
        }
        if operator == b'!' {
            self.killed.extend(suites);
        }
    }

    fn remark(&self) -> Option<String> {
        let part = |names: &[&str], what| (!names.is_empty()).then(|| format!("{} {what}", names.join(", ")));
        let parts = [part(&self.unavailable, "not available"), part(&self.unknown, "unknown")];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("ignored: {}", parts.join("; ")))
    }
}

/// The meaning of a name. "Lists of cipher suites can be combined in a single cipher string using the +
/// character", as a logical and.
fn meaning(name: &str) -> Meaning {
    if name.starts_with("TLS_") {
        return standard(name);
    }
    if let Some(&suite) = CipherSuite::ALL.iter().find(|suite| suite.openssl_name() == name) {
        return Meaning::Suites(vec![suite]);
    }
    let groups: Option<Vec<_>> = name.split('+').map(group).collect();
    match groups {
        Some(groups) => {
            let suites: Vec<_> = STRONGEST_FIRST
                .into_iter()
                .filter(|&suite| groups.iter().all(|holds| holds(suite)))
                .collect();
            if suites.is_empty() { Meaning::Unavailable } else { Meaning::Suites(suites) }
        }
        None if name.split(['-', '+', '_']).all(is_part) => Meaning::Unavailable,
        None => Meaning::Unknown,
    }
}

/// The meaning of a suite's IANA name.
fn standard(name: &str) -> Meaning {
    let is = |suite: &CipherSuite| {
        let (auth, cipher) = match suite {
            EcdheEcdsaAes128Gcm => ("ECDSA", "AES_128_GCM_SHA256"),
            EcdheRsaAes128Gcm => ("RSA", "AES_128_GCM_SHA256"),
            EcdheEcdsaAes256Gcm => ("ECDSA", "AES_256_GCM_SHA384"),
            EcdheRsaAes256Gcm => ("RSA", "AES_256_GCM_SHA384"),
            EcdheEcdsaChaCha20 => ("ECDSA", "CHACHA20_POLY1305_SHA256"),
            EcdheRsaChaCha20 => ("RSA", "CHACHA20_POLY1305_SHA256"),
        };
        name.strip_prefix("TLS_ECDHE_")
            .and_then(|rest| rest.strip_prefix(auth))
            .and_then(|rest| rest.strip_prefix("_WITH_"))
            == Some(cipher)
    };
    match CipherSuite::ALL.iter().find(|suite| is(suite)) {
        Some(&suite) => Meaning::Suites(vec![suite]),
        None if name.contains("_WITH_") => Meaning::Unavailable,
        None if name.starts_with("TLS_AES_") || name.starts_with("TLS_CHACHA20_") => Meaning::OfTls13,
        None => Meaning::Unknown,
    }
}

/// The condition by which a suite belongs to this group; none if the name is not a group.
fn group(name: &str) -> Option<fn(CipherSuite) -> bool> {
    let is_ecdsa = |suite| matches!(suite, EcdheEcdsaAes128Gcm | EcdheEcdsaAes256Gcm | EcdheEcdsaChaCha20);
    let is_chacha = |suite| matches!(suite, EcdheEcdsaChaCha20 | EcdheRsaChaCha20);
    let is_aes128 = |suite| matches!(suite, EcdheEcdsaAes128Gcm | EcdheRsaAes128Gcm);
    let is_aes256 = |suite| matches!(suite, EcdheEcdsaAes256Gcm | EcdheRsaAes256Gcm);
    Some(match name {
        "ALL" | "DEFAULT" | "HIGH" | "TLSv1.2" | "ECDHE" | "EECDH" | "kECDHE" | "kEECDH" | "ECDH" => |_| true,
        "ECDSA" | "aECDSA" => is_ecdsa,
        "aRSA" => |suite| matches!(suite, EcdheRsaAes128Gcm | EcdheRsaAes256Gcm | EcdheRsaChaCha20),
        "AES" | "AESGCM" | "FIPS" => |suite| !matches!(suite, EcdheEcdsaChaCha20 | EcdheRsaChaCha20),
        "AES128" => is_aes128,
        "AES256" => is_aes256,
        "CHACHA20" => is_chacha,
        _ if GROUPS_OF_OTHERS.contains(&name) => |_| false,
        _ => return None,
    })
}

/// Groups without a supported suite. `SHA256` and the like stand for suites with a separate MAC.
const GROUPS_OF_OTHERS: &[&str] = &[
    "3DES",
    "ADH",
    "AECDH",
    "AESCCM",
    "AESCCM8",
    "ARIA",
    "ARIA128",
    "ARIA256",
    "CAMELLIA",
    "CAMELLIA128",
    "CAMELLIA256",
    "CBC",
    "COMPLEMENTOFALL",
    "COMPLEMENTOFDEFAULT",
    "DES",
    "DH",
    "DHE",
    "DSS",
    "EDH",
    "EXP",
    "EXPORT",
    "GOST94",
    "GOST89MAC",
    "IDEA",
    "LOW",
    "MD5",
    "MEDIUM",
    "NULL",
    "PSK",
    "RC2",
    "RC4",
    "RSA",
    "SEED",
    "SHA",
    "SHA1",
    "SHA256",
    "SHA384",
    "SRP",
    "SSLv3",
    "TLSv1",
    "TLSv1.0",
    "aDSS",
    "aGOST",
    "aNULL",
    "aPSK",
    "eNULL",
    "kDHE",
    "kDHEPSK",
    "kECDHEPSK",
    "kEDH",
    "kGOST",
    "kPSK",
    "kRSA",
    "kRSAPSK",
    "kSRP",
];

/// Whether this is a part of suite names, so that `DHE-RSA-AES128-SHA256` is known to be a suite, though not
/// a supported one.
fn is_part(part: &str) -> bool {
    const PARTS: &[&str] = &["CBC3", "CCM", "CCM8", "GCM", "POLY1305", "EDE3", "EXP1024", "DES40", "AES"];
    group(part).is_some() || PARTS.contains(&part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        parse(text).unwrap().0.into_iter().map(CipherSuite::openssl_name).collect()
    }

    fn remark(text: &str) -> Option<String> {
        parse(text).unwrap().1
    }

    #[test]
    fn the_order_of_the_list_stays() {
        let list = "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384";
        assert_eq!(names(list), ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(
            names("TLS_AES_128_GCM_SHA256:TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
            ["ECDHE-RSA-AES256-GCM-SHA384"]
        );
        assert_eq!(remark("TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:HIGH"), None);
    }

    #[test]
    fn ingress_nginx_s_list_loses_what_has_no_forward_secrecy_by_curves() {
        let list = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
                    ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:\
                    DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384";
        assert_eq!(parse(list).unwrap().0, CipherSuite::DEFAULT);
        assert_eq!(
            remark(list).unwrap(),
            "ignored: DHE-RSA-AES128-GCM-SHA256, DHE-RSA-AES256-GCM-SHA384 not available"
        );
    }

    #[test]
    fn groups_and_operators_are_openssl_s() {
        assert_eq!(names("HIGH:!aNULL:!MD5"), STRONGEST_FIRST.map(CipherSuite::openssl_name));
        assert_eq!(remark("HIGH:!aNULL:!MD5:@SECLEVEL=1"), None);
        assert_eq!(
            names("EECDH+aRSA+AESGCM"),
            ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"]
        );
        assert_eq!(names("ECDHE+AESGCM:!ECDSA:!AES128"), ["ECDHE-RSA-AES256-GCM-SHA384"]);
        assert_eq!(
            names("AES128+aRSA:CHACHA20+aRSA:+AES128"),
            ["ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-RSA-AES128-GCM-SHA256"]
        );
        let back = "aRSA:-AES256:AES256+aRSA";
        assert_eq!(names(back).last(), Some(&"ECDHE-RSA-AES256-GCM-SHA384"), "- lets come back");
        assert!(!names("aRSA:!AES256:AES256+aRSA").contains(&"ECDHE-RSA-AES256-GCM-SHA384"), "! does not");
        assert_eq!(names("AES128+aRSA AES256+aRSA @STRENGTH")[0], "ECDHE-RSA-AES256-GCM-SHA384");
    }

    #[test]
    fn what_is_left_out_is_told() {
        assert_eq!(
            remark("AESGCM:AES128-SHA:ECDHE-RSA-AES128-SHA256:RSA:NONSENSE:DES-CBC3-SHA").unwrap(),
            "ignored: AES128-SHA, ECDHE-RSA-AES128-SHA256, RSA, DES-CBC3-SHA not available; NONSENSE unknown"
        );
        for nothing in ["", ":", "AES128-SHA", "HIGH:!ALL", "TLS_AES_128_GCM_SHA256"] {
            assert!(parse(nothing).is_err(), "{nothing}");
        }
    }

    proptest! {
        #[test]
        fn no_list_panics_or_repeats(text in "([!+@-]?(HIGH|aRSA|AES128|ECDHE|STRENGTH|X|é)[:+ ]?){0,6}") {
            if let Ok((suites, _)) = parse(&text) {
                let distinct: std::collections::HashSet<_> = suites.iter().collect();
                prop_assert_eq!(distinct.len(), suites.len());
            }
        }
    }
}

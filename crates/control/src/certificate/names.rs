//! The names that a certificate is for.

use std::fmt;

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::X509Certificate;

/// Subject alternative names, or the subject's common name where there are none.
#[derive(Debug)]
pub(super) struct Names(Vec<String>);

impl Names {
    pub(super) fn of(certificate: &X509Certificate<'_>) -> Self {
        let Ok(Some(alternatives)) = certificate.subject_alternative_name() else {
            return Self(super::common_name(certificate.subject()).map(str::to_owned).into_iter().collect());
        };
        let dns = alternatives.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
        Self(dns.collect())
    }

    /// The names one by one.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether the certificate is for this host. "The left-most label may be `*`, which stands for one label"
    /// (RFC 6125 section 6.4.3). A wildcard host is covered only by the same wildcard.
    pub(super) fn cover(&self, host: &str) -> bool {
        let covers = |name: &str| match (name.split_once('.'), host.split_once('.')) {
            (Some(("*", of)), Some((label, domain))) => {
                label != "*" && of.eq_ignore_ascii_case(domain) || name.eq_ignore_ascii_case(host)
            }
            _ => name.eq_ignore_ascii_case(host),
        };
        self.0.iter().any(|name| covers(name.strip_suffix('.').unwrap_or(name)))
    }
}

/// The most names that a message lists: certificates of content delivery networks have hundreds.
const TOLD_MAX: usize = 5;

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("no host"),
            names if names.len() > TOLD_MAX => {
                write!(f, "{} and {} more", names[..TOLD_MAX].join(", "), names.len() - TOLD_MAX)
            }
            names => f.write_str(&names.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_stands_for_one_label() {
        let names = |list: &[&str]| Names(list.iter().map(|&name| name.to_owned()).collect());
        let wild = names(&["*.a.test"]);
        assert!(wild.cover("x.a.test") && wild.cover("X.A.Test") && wild.cover("*.a.test"));
        assert!(!wild.cover("a.test") && !wild.cover("x.y.a.test") && !wild.cover("*.b.test"));
        assert!(!names(&["x.a.test"]).cover("*.a.test"));
        assert!(names(&["other", "a.test"]).cover("a.test"));
        assert!(!names(&[]).cover(""));
        assert_eq!(names(&[]).to_string(), "no host");
        assert_eq!(names(&["a", "b", "c", "d", "e", "f"]).to_string(), "a, b, c, d, e and 1 more");
    }
}

//! The URLs of providers, and the addresses that they may lead to.
//!
//! The author of an object decides where Forebay sends its questions. In a cluster these are the addresses
//! that endpoints may have, and no others; files belong to the operator, who may name this machine.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::Uri;
use ipnet::IpNet;

use crate::options::Options;
use crate::reach;

/// An `https` or `http` URL without user, password and fragment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Url {
    pub(crate) is_encrypted: bool,
    /// Host name or address, in lower case; an IPv6 address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query.
    pub(crate) target: String,
}

impl Url {
    /// Reads a URL. One with `http` has to lead to a Service of the cluster or to this machine: whoever can
    /// change an answer on its way decides who is let in.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let fail = |why: &str| Err(format!("{text:?} {why}"));
        let Ok(uri) = text.parse::<Uri>() else { return fail("is no URL") };
        let is_encrypted = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return fail("is no https URL"),
        };
        let Some(authority) = uri.authority() else { return fail("has no host") };
        if authority.as_str().contains('@') {
            return fail("has a user or a password");
        }
        if text.contains('#') {
            return fail("has a fragment");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() {
            return fail("has no host");
        }
        let port = match &authority.as_str()[authority.host().len()..] {
            "" => Some(if is_encrypted { 443 } else { 80 }),
            port => {
                port.strip_prefix(':').and_then(|port| port.parse::<u16>().ok()).filter(|port| *port != 0)
            }
        };
        let Some(port) = port else { return fail("has no valid port") };
        if !is_encrypted && !is_within_cluster(&host) && !is_this_machine(&host) {
            return fail("is not encrypted, which is allowed for Services of the cluster alone: use https");
        }
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        Ok(Self { is_encrypted, host, port, target })
    }

    /// Value of `Host`.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.is_encrypted { 443 } else { 80 } {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(formatter, "{scheme}://{}{}", self.authority(), self.target)
    }
}

/// A URL to fetch, and the authorities to trust there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) url: Url,
    /// Certificates of authorities as PEM, in place of the machine's.
    pub(crate) authority: Option<Arc<[u8]>>,
}

/// Whether a name is that of a Service: `name.namespace.svc`, with or without the cluster's domain.
fn is_within_cluster(host: &str) -> bool {
    matches!(
        host.split('.').collect::<Vec<_>>().as_slice(),
        [_, _, "svc"] | [_, _, "svc", .., "cluster", "local"]
    )
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// The addresses that URLs may lead to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    /// Users with access to one namespace can name URLs.
    judges: bool,
    own: BTreeSet<IpAddr>,
    /// Networks of addresses outside the cluster; empty for all.
    allowed: Vec<IpNet>,
}

impl Reach {
    pub(super) fn of(options: &Options) -> Self {
        Self {
            judges: options.judges_endpoints,
            own: options.own_addresses.clone(),
            allowed: options.external_name_allow.clone(),
        }
    }

    /// The reason why a URL may not lead to an address; none if it may.
    pub(super) fn refusal(&self, url: &Url, ip: IpAddr) -> Option<&'static str> {
        if !self.judges {
            return None;
        }
        let is_closed =
            !is_within_cluster(&url.host) && !self.allowed.is_empty() && !reach::is_within(&self.allowed, ip);
        reach::refusal(ip)
            .or_else(|| reach::is_one_of(&self.own, ip).then_some("it is Forebay's own address"))
            .or_else(|| is_closed.then_some("it is in none of the networks of --external-name-allow"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_providers() {
        let parts = |text: &str| Url::parse(text).map(|url| (url.host.clone(), url.port, url.target.clone()));
        let of = |host: &str, port, target: &str| Ok((host.to_owned(), port, target.to_owned()));
        assert_eq!(parts("https://Issuer.test/keys?a=b"), of("issuer.test", 443, "/keys?a=b"));
        assert_eq!(parts("https://[2001:db8::1]:8443"), of("2001:db8::1", 8443, "/"));
        assert_eq!(parts("http://kc.auth.svc:8080/k"), of("kc.auth.svc", 8080, "/k"));
        assert_eq!(parts("http://kc.auth.svc.cluster.local"), of("kc.auth.svc.cluster.local", 80, "/"));
        assert_eq!(parts("http://127.0.0.1:1/"), of("127.0.0.1", 1, "/"));
        for text in ["https://issuer.test/keys", "https://[2001:db8::1]:8443/", "http://kc.auth.svc/k"] {
            assert_eq!(Url::parse(text).unwrap().to_string(), text);
        }
        for bad in [
            "",
            "/keys",
            "issuer.test",
            "ftp://issuer.test",
            "https://",
            "https://a@issuer.test/",
            "https://issuer.test/#a",
            "https://issuer.test:0/",
            "https://issuer.test:/",
            "https://issuer.test:x/",
            "http://issuer.test/",
            "http://svc.test/",
            "http://a.svc/",
            "http://a.b.svc.test/",
            "https://a b/",
        ] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_that_only_forebay_reaches_are_refused_in_a_cluster() {
        let url = Url::parse("https://issuer.test").unwrap();
        let own: IpAddr = "192.0.2.1".parse().unwrap();
        let mut reach =
            Reach { judges: true, own: [own].into(), allowed: vec!["198.51.100.0/24".parse().unwrap()] };
        let refused = |reach: &Reach, url: &Url, ip: &str| reach.refusal(url, ip.parse().unwrap()).is_some();
        for ip in ["127.0.0.1", "::1", "169.254.169.254", "192.0.2.1", "203.0.113.1"] {
            assert!(refused(&reach, &url, ip), "{ip}");
        }
        assert!(!refused(&reach, &url, "198.51.100.7"));
        assert!(!refused(&reach, &Url::parse("https://kc.auth.svc").unwrap(), "203.0.113.1"));
        reach.judges = false;
        assert!(!refused(&reach, &url, "127.0.0.1"));
    }
}

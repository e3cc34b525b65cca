//! The requests of followers: their parameters, the token of a page, and the headers of both sides.
//!
//! Never in here: sockets.

use std::net::{IpAddr, Ipv6Addr};
use std::time::{SystemTime, UNIX_EPOCH};

use http::Uri;

/// The header with the greeting of a request, and with the number of its answer.
pub(super) const GREETING: &str = "forebay-relay";

/// Parameters that a follower adds to a request: its release, and the version that it has seen.
pub(super) const RELEASE_NAME: &str = "forebayRelease";
pub(super) const VERSION_SEEN: &str = "forebaySeen";

/// Replicas of another release may write other fields of slices: they do not follow each other.
pub(super) const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Beginning of the token for the next page of a relay's list.
const TOKEN: &str = "forebay_";

/// The parameters of a request for slices.
pub(super) struct Asked(Vec<(String, String)>);

/// A later page of a relay's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageOf {
    pub(super) relay: IpAddr,
    pub(super) list: u64,
    pub(super) begin: usize,
}

impl Asked {
    pub(super) fn of(uri: &Uri) -> Self {
        let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.parse().ok()
    }

    /// The version after which events are asked for; none for a list.
    pub(super) fn watch_from(&self) -> Option<u64> {
        self.value("watch").filter(|value| matches!(*value, "true" | "1"))?;
        self.number("resourceVersion")
    }

    /// Whether a relay can answer: it knows no versions that are not numbers, and no page of another's list.
    pub(super) fn is_for_relays(&self) -> bool {
        let is_watch = self.value("watch").is_some();
        is_watch == self.watch_from().is_some() && self.value("continue").is_none()
    }

    /// The page of a relay's list that is asked for.
    pub(super) fn page(&self) -> Option<PageOf> {
        let mut parts = self.value("continue")?.strip_prefix(TOKEN)?.split('_');
        let relay = u128::from_str_radix(parts.next()?, 16).ok()?;
        let relay = Ipv6Addr::from_bits(relay).to_canonical();
        let (list, begin) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(PageOf { relay, list, begin })
    }
}

/// The token for the page of a relay's list that begins at a slice. No character of it is escaped in a query.
pub(super) fn token(relay: IpAddr, list: u64, begin: usize) -> String {
    let relay = match relay {
        IpAddr::V4(relay) => relay.to_ipv6_mapped(),
        IpAddr::V6(relay) => relay,
    };
    format!("{TOKEN}{:x}_{list}_{begin}", relay.to_bits())
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(uri: &str) -> Asked {
        Asked::of(&uri.parse().unwrap())
    }

    #[test]
    fn the_token_of_a_page_is_read_back() {
        for relay in ["10.0.0.1", "2001:db8::7"] {
            let relay: IpAddr = relay.parse().unwrap();
            let page = asked(&format!("/slices?limit=500&continue={}", token(relay, 3, 500))).page();
            assert_eq!(page, Some(PageOf { relay, list: 3, begin: 500 }));
        }
        for other in ["", "eyJ2IjoibWV0YSJ9", "forebay_", "forebay_x_1_2", "forebay_1_2"] {
            assert_eq!(asked(&format!("/slices?continue={other}")).page(), None, "{other}");
        }
    }

    #[test]
    fn only_lists_and_watches_from_a_number_are_for_relays() {
        for (uri, is_for_relays) in [
            ("/slices?limit=500", true),
            ("/slices?&watch=true&resourceVersion=7", true),
            ("/slices?&watch=true&resourceVersion=seven", false),
            ("/slices?limit=500&continue=abc", false),
        ] {
            assert_eq!(asked(uri).is_for_relays(), is_for_relays, "{uri}");
        }
    }
}

//! Orders to purge the cache, as given on the command line and to the admin server, and their results.

use std::fmt::Write;
use std::net::IpAddr;

use anyhow::{Context, bail};
use http::Uri;
use http::uri::Authority;
use model::Action;
use proxy::Purge;
use routing::Snapshot;
use serde::{Deserialize, Serialize};

use crate::query::{decode, encode};

/// Longest query in bytes.
const QUERY_BYTES_MAX: usize = 64 << 10;
/// Purges in one order: each of them is compared with everything that is kept.
const PURGES_MAX: usize = 100;

/// The objects to purge, in the user's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    pub(crate) urls: Vec<String>,
    pub(crate) prefixes: Vec<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) all: bool,
}

/// The result of an order.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Purged {
    /// Responses that were in memory. How many are only on disk is known when they are looked for.
    pub(crate) objects: u64,
    /// There is a disk tier, which has forgotten too.
    pub(crate) disk: bool,
    /// Hosts that were named and of which no route has a cache.
    pub(crate) hosts_without_cache: Vec<String>,
    /// Other replicas that have forgotten too: those with which the cache is shared.
    #[serde(default)]
    pub(crate) replicas: usize,
    /// Replicas that did not answer.
    #[serde(default)]
    pub(crate) replicas_unreached: Vec<IpAddr>,
}

impl Orders {
    /// The same for the proxy.
    pub(crate) fn purges(&self) -> anyhow::Result<Vec<Purge>> {
        let urls = self.urls.iter().map(|url| parts(url).map(|(host, target)| Purge::Url(host, target)));
        let prefixes = self.prefixes.iter();
        let prefixes = prefixes.map(|url| parts(url).map(|(host, target)| Purge::Prefix(host, target)));
        let hosts = self.hosts.iter().map(|host| Ok(Purge::Host(name(host)?)));
        let tags = self.tags.iter().map(|tag| Ok(Purge::Tag(word(tag)?)));
        let all = self.all.then_some(Ok(Purge::All)).into_iter();
        let purges = urls.chain(prefixes).chain(hosts).chain(tags).chain(all);
        let purges = purges.collect::<anyhow::Result<Vec<_>>>()?;
        match purges.len() {
            0 => bail!("nothing is named: /cache/purge takes url, prefix, host, tag and all=true"),
            count if count > PURGES_MAX => bail!("{count} purges at once; there may be {PURGES_MAX}"),
            _ => Ok(purges),
        }
    }

    /// As the query of a URL.
    pub(crate) fn query(&self) -> String {
        let forms =
            [("url", &self.urls), ("prefix", &self.prefixes), ("host", &self.hosts), ("tag", &self.tags)];
        let pairs = forms
            .into_iter()
            .flat_map(|(name, values)| values.iter().map(move |value| format!("{name}={}", encode(value))));
        pairs.chain(self.all.then(|| "all=true".to_owned())).collect::<Vec<_>>().join("&")
    }

    /// Reads a query that [`query`](Self::query) or a user wrote.
    pub(crate) fn of_query(query: &str) -> anyhow::Result<Self> {
        if query.len() > QUERY_BYTES_MAX {
            bail!("the query is longer than {QUERY_BYTES_MAX} bytes");
        }
        let mut orders = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value).with_context(|| format!("{name} cannot be read"))?;
            match (name, value.as_str()) {
                ("url", _) => orders.urls.push(value),
                ("prefix", _) => orders.prefixes.push(value),
                ("host", _) => orders.hosts.push(value),
                ("tag", _) => orders.tags.push(value),
                ("all", "true") => orders.all = true,
                _ => bail!("unknown parameter {pair}; there are url, prefix, host, tag and all=true"),
            }
        }
        Ok(orders)
    }
}

impl Purged {
    /// The result as text for people.
    pub(crate) fn text(&self) -> String {
        let objects = if self.objects == 1 { "object" } else { "objects" };
        let disk = if self.disk { ", and what there was on disk" } else { "" };
        let mut text = format!("purged {} {objects} in memory{disk}\n", self.objects);
        if self.replicas > 0 {
            let _ = writeln!(text, "{} other replicas have done so too", self.replicas);
        }
        for replica in &self.replicas_unreached {
            let _ = writeln!(text, "replica {replica} has not said that it has: purge again, or there");
        }
        for host in &self.hosts_without_cache {
            let _ = writeln!(text, "no route of {host} has a cache: is that its name?");
        }
        text
    }
}

/// The hosts among these of which no route has a cache at present. What has been kept before is purged all
/// the same.
pub(crate) fn without_cache(purges: &[Purge], snapshot: &Snapshot) -> Vec<String> {
    let hosts = purges.iter().filter_map(|purge| match purge {
        Purge::Host(host) | Purge::Url(host, _) | Purge::Prefix(host, _) => Some(host),
        Purge::All | Purge::Tag(_) => None,
    });
    let mut hosts: Vec<String> = hosts.filter(|host| !has_cache(snapshot, host)).cloned().collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

fn has_cache(snapshot: &Snapshot, host: &str) -> bool {
    let tables = snapshot.listeners().iter().filter_map(|listener| listener.hosts()?.find(host.as_bytes()));
    tables
        .flat_map(|table| table.routes())
        .any(|route| matches!(&route.action, Action::Forward(forward) if forward.cache.is_some()))
}

/// Host and target of a URL.
fn parts(url: &str) -> anyhow::Result<(String, String)> {
    if !url.is_ascii() {
        bail!("{url}: escape it as clients do, with % and punycode");
    }
    let uri: Uri = url.parse().with_context(|| format!("{url} is no URL"))?;
    let (Some("http" | "https"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        bail!("{url} is no URL that begins with http:// or https://");
    };
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    Ok((host_of(authority)?, target.to_owned()))
}

fn name(host: &str) -> anyhow::Result<String> {
    host_of(&host.parse().with_context(|| format!("{host:?} is no host"))?)
}

fn host_of(authority: &Authority) -> anyhow::Result<String> {
    let host = authority.host();
    if authority.as_str().contains('@') || host.is_empty() {
        bail!("{authority}: a host without a password is needed");
    }
    Ok(host.to_ascii_lowercase())
}

fn word(tag: &str) -> anyhow::Result<String> {
    if tag.is_empty() || tag.contains(|c: char| c.is_whitespace() || c.is_control()) {
        bail!("{tag:?} is no tag: a tag has no spaces, and several are given one by one");
    }
    Ok(tag.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purges(query: &str) -> Result<Vec<Purge>, String> {
        Orders::of_query(query).and_then(|orders| orders.purges()).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn orders_are_read_as_they_are_written() {
        let orders = Orders {
            urls: vec!["https://Shop.test:8443/a?b=c&d".to_owned(), "http://[::1]".to_owned()],
            prefixes: vec!["https://shop.test/images/".to_owned()],
            hosts: vec!["shop.test".to_owned()],
            tags: vec!["product-7,x".to_owned()],
            all: true,
        };
        assert_eq!(Orders::of_query(&orders.query()).unwrap(), orders);
        let text = |text: &str| text.to_owned();
        let expected = [
            Purge::Url(text("shop.test"), text("/a?b=c&d")),
            Purge::Url(text("[::1]"), text("/")),
            Purge::Prefix(text("shop.test"), text("/images/")),
            Purge::Host(text("shop.test")),
            Purge::Tag(text("product-7,x")),
            Purge::All,
        ];
        assert_eq!(orders.purges().unwrap(), expected);
    }

    #[test]
    fn what_is_no_order_is_refused() {
        for query in [
            "",
            "all",
            "all=false",
            "colour=red",
            "url=shop.test",
            "url=/a",
            "url=ftp://shop.test/",
            "url=http://",
            "url=http://me:pw@shop.test/",
            "url=http://shop.test/a b",
            "url=http://shop.test/%C3%A4",
            "url=%zz",
            "prefix=shop.test/a",
            "host=",
            "host=shop.test/a",
            "host=http://shop.test",
            "tag=",
            "tag=a b",
            &"tag=a&".repeat(PURGES_MAX + 1),
            &format!("tag={}", "x".repeat(QUERY_BYTES_MAX)),
        ] {
            assert!(purges(query).is_err(), "{}", &query[..query.len().min(40)]);
        }
    }
}

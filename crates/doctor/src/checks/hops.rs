//! Proxies behind proxies.

use std::collections::{BTreeMap, BTreeSet};

use super::subject::{is_open, listener, pid};
use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format::count;
use crate::read::sockets;
use crate::sample::{SampleOrigin, Unknown};
use crate::samples::Samples;
use crate::sockets::{Owner, SocketGroup};
use crate::text::say;

/// Names of reverse proxies as the kernel shows them: the names of their main threads, at most 15 bytes.
const PROXIES: &[&str] = &[
    "[TS_MAIN]",
    "apache2",
    "cache-main",
    "caddy",
    "envoy",
    "forebay",
    "haproxy",
    "httpd",
    "nginx",
    "openresty",
    "squid",
    "traefik",
    "traffic_server",
    "varnishd",
];

/// A proxy passes requests on, so that it has at least this share of outgoing connections; it may share one
/// among several requests.
const PASSED_ON: f64 = 0.1;

pub(crate) const CHECKS: &[Check] = &[Check {
    id: "extra-hop",
    category: "traffic",
    what: "an upstream is itself a reverse proxy on this machine: each request is read and written once more than it needs",
    how: "upstream listeners in the same network namespace (sock_diag) that have the name of a known proxy and about as many connections of their own",
    severity: Verdict::Warning,
    remedy: "name the last upstream in the Service or Ingress, and have one proxy do what both do",
    case: "E",
    look: extra_hop,
}];

/// A process that listens at an address that the subject connects to.
struct Upstream<'a> {
    remote: &'a str,
    connections: u64,
    owner: Option<&'a Owner>,
}

fn extra_hop(samples: &Samples) -> Result<Outcome, Unknown> {
    let taken = &samples.last()?.taken;
    samples.pids()?;
    let last = samples.sockets()?;
    // Sockets are looked for in every sample: short connections may be missing in one of them.
    let hop = samples.all.iter().rev().find_map(|sample| hop(&sockets::of(sample).ok()?, taken));
    if let Some(outcome) = hop {
        return Ok(outcome);
    }
    let upstreams = upstreams(&last, taken);
    if let Some(hidden) = upstreams.iter().find(|upstream| upstream.owner.is_none()) {
        return Err(Unknown(say!("who listens at {} cannot be seen", hidden.remote)));
    }
    Ok(match upstreams.len() {
        0 => Outcome::ok(say!("no upstream is on this machine")),
        number => Outcome::ok(say!("none of {} upstreams on this machine is a proxy", number)),
    })
}

/// The first upstream that is itself a proxy; none if no upstream is.
fn hop(groups: &[SocketGroup], taken: &SampleOrigin) -> Option<Outcome> {
    upstreams(groups, taken).iter().find_map(|upstream| {
        let hop = upstream.owner.filter(|owner| PROXIES.contains(&&owner.name[..]))?;
        // If no process was named, all processes that listen were examined, so that the upstream may be one
        // of them.
        if taken.pid.is_some() && taken.pids.contains(&hop.pid) {
            return None;
        }
        let own = open_connections(groups, upstream.remote, hop);
        (own as f64 >= PASSED_ON * upstream.connections as f64).then(|| told(upstream, hop, own))
    })
}

fn told(upstream: &Upstream<'_>, hop: &Owner, own: u64) -> Outcome {
    let Upstream { remote, connections, .. } = upstream;
    let Owner { pid, name } = hop;
    Outcome::warning(say!(
        "the upstream {} is {} (pid {}), which passes requests on: {} connections to it, {} of its own",
        remote,
        name,
        pid,
        count(*connections),
        count(own)
    ))
    .remedy(say!(
        "name the upstreams of {} in the Service or Ingress, and have one proxy do what both do",
        name
    ))
    .with("remote", *remote)
    .with("process", name.as_str())
    .with("pid", u64::from(*pid))
    .with("connections", *connections)
    .with("own_connections", own)
}

/// The addresses in this namespace that the examined processes have connections to, sorted by the number of
/// connections.
///
/// If it is not known which processes belong together, a listener with the same name as the process that
/// connects to it counts as the same proxy.
fn upstreams<'a>(groups: &'a [SocketGroup], taken: &SampleOrigin) -> Vec<Upstream<'a>> {
    let mut connections = BTreeMap::<&str, (u64, Vec<&Owner>)>::new();
    for group in groups.iter().filter(|group| is_open(group)) {
        if let Some(owner) = group.owner.as_ref().filter(|owner| taken.pids.contains(&owner.pid)) {
            let (count, owners) = connections.entry(&group.remote).or_default();
            *count += group.count;
            owners.push(owner);
        }
    }
    let mut upstreams: Vec<Upstream<'a>> = Vec::new();
    for (remote, (connections, clients)) in connections {
        let Some(listener) = listener(groups, remote) else { continue };
        let owner = listener.owner.as_ref();
        let is_same = owner.is_some_and(|owner| clients.iter().any(|client| client.name == owner.name));
        if !(taken.pid.is_none() && is_same) {
            upstreams.push(Upstream { remote, connections, owner });
        }
    }
    upstreams.sort_by_key(|upstream| std::cmp::Reverse(upstream.connections));
    upstreams
}

/// The connections that processes of this name have open, workers included, but not those of processes that
/// connect to it: another Forebay in front has the same name. Connections too young to have an owner count as
/// theirs if no other process was seen to connect to that address.
fn open_connections(groups: &[SocketGroup], remote: &str, hop: &Owner) -> u64 {
    let open = || groups.iter().filter(|group| is_open(group));
    let clients: BTreeSet<u32> = open().filter(|group| group.remote == remote).filter_map(pid).collect();
    let is_of = |owner: &Owner| owner.name == hop.name && !clients.contains(&owner.pid);
    let is_hop = |group: &SocketGroup| group.owner.as_ref().is_some_and(is_of);
    let of_others = open().filter(|group| group.owner.is_some() && !is_hop(group));
    let of_others: BTreeSet<&String> = of_others.map(|group| &group.remote).collect();
    let own =
        open().filter(|group| is_hop(group) || (group.owner.is_none() && !of_others.contains(&group.remote)));
    own.map(|group| group.count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::State;
    use crate::testing::{incoming, listening, outgoing, scene};

    const ID: &str = "extra-hop";

    /// Sockets of Forebay, with a process of this name as its upstream, which has so many outgoing
    /// connections.
    fn chain(name: &str, own: u64) -> Vec<SocketGroup> {
        vec![
            listening("0.0.0.0:80").of(7, "forebay"),
            outgoing(State::Established, "10.0.0.1:8080", 64).of(7, "forebay"),
            incoming(State::Established, "10.0.0.1:8080", 64).of(9, name),
            listening("0.0.0.0:8080").of(8, name),
            outgoing(State::Established, "10.0.0.2:9000", own).of(9, name),
        ]
    }

    #[test]
    fn a_proxy_behind_the_proxy_is_named() {
        let finding = scene().pids(&[7]).sockets(&chain("nginx", 60)).finding(ID);
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(
            finding.message,
            "the upstream 10.0.0.1:8080 is nginx (pid 8), which passes requests on: 64 connections to it, 60 of its own"
        );
        assert!(finding.remedy.contains("upstreams of nginx"), "{}", finding.remedy);
        let of_all = scene().pids(&[7, 8, 9]).sockets(&chain("nginx", 60));
        let mut samples = of_all.samples();
        samples.all.iter_mut().for_each(|sample| sample.taken.pid = None);
        let finding = super::extra_hop(&samples).unwrap();
        assert_eq!(finding.verdict, Verdict::Warning);
        let twice = scene().pids(&[7]).sockets(&chain("forebay", 60)).finding(ID);
        assert_eq!(twice.verdict, Verdict::Warning, "two of a kind");
    }

    #[test]
    fn connections_too_young_to_have_an_owner_count() {
        let mut groups = chain("nginx", 60);
        groups[4].owner = None;
        let finding = |groups: &[SocketGroup]| scene().pids(&[7]).sockets(groups).finding(ID);
        assert!(finding(&groups).tells("own_connections", 60.0));
        groups.push(outgoing(State::Established, "10.0.0.2:9000", 1).of(5, "curl"));
        assert_eq!(finding(&groups).verdict, Verdict::Ok, "they may be somebody else's");
    }

    #[test]
    fn a_server_is_no_hop() {
        let verdict = |groups: &[SocketGroup]| scene().pids(&[7]).sockets(groups).finding(ID).verdict;
        assert_eq!(verdict(&chain("nginx", 0)), Verdict::Ok, "it serves files");
        assert_eq!(verdict(&chain("forebay", 0)), Verdict::Ok, "it is a payload server");
        assert_eq!(verdict(&chain("web", 60)), Verdict::Ok, "it asks a database");
        assert_eq!(verdict(&chain("nginx", 60)[..2]), Verdict::Ok, "it is elsewhere");
        let mut workers = chain("forebay", 60);
        workers[3].owner = workers[0].owner.clone();
        assert_eq!(verdict(&workers), Verdict::Ok, "it is its own upstream");
    }

    #[test]
    fn who_cannot_be_seen_is_unknown() {
        let mut groups = chain("nginx", 60);
        groups[3].owner = None;
        let finding = scene().pids(&[7]).sockets(&groups).finding(ID);
        assert_eq!(finding.message, "not checked: who listens at 10.0.0.1:8080 cannot be seen");
        assert_eq!(scene().sockets(&groups).finding(ID).verdict, Verdict::Unknown);
    }
}

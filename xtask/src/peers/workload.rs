//! The workloads and their goals, as `xtask/peers/workloads.yaml` has them.
//!
//! Must not be in here: how anything is measured.

use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Result;
use bench::tls::Version;
use serde::{Deserialize, Deserializer};

use super::certificate::Key;
use super::feature::Feature;
use super::figures::{CARRIED_AS_MUCH, Figure, Results};
use super::proxy::Peer;
use crate::template;

/// Workloads that are measured alike.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    /// The name of all of them in `--only`.
    pub(crate) name: String,
    pub(crate) title: String,
    /// How often each is measured, and for how long, where the command line does not say.
    pub(crate) rounds: usize,
    seconds: u64,
    pub(crate) workloads: Vec<Workload>,
}

/// One thing that peers are compared by.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) what: String,
    pub(crate) peers: Vec<Peer>,
    /// The programs that it needs besides those of the peers.
    #[serde(default)]
    pub(crate) tools: Vec<String>,
    pub(crate) measure: Measure,
    pub(crate) goals: Vec<Goal>,
}

/// How a workload is measured.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Measure {
    /// The generators themselves, without a proxy.
    Generator,
    /// CPU at a fixed rate.
    Cost(Load),
    /// The same with the load's feature and without: what the feature adds.
    Added(Load),
    /// The same with responses that are compressed.
    Compressed(Load),
    Handshakes(Handshakes),
    /// Field case A, with so much of a CPU for the backend.
    CaseA {
        clients: usize,
        percent: u32,
    },
    /// Field case D.
    CaseD {
        keepalive: Option<u32>,
    },
    TwoWorkers,
    /// Memory of clients that stay.
    Idle {
        key: Option<Key>,
    },
    Routing,
    Hosts,
    H2(Protocol),
    H2Upstreams,
    Redis(Redis),
    HandshakeFlood,
    WrongPasswords,
    Conditions(Load),
    MirrorHanging(Load),
    CacheCollapse(Load),
    CacheZipf,
    CacheRestart,
}

/// Requests at a rate.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Load {
    pub(super) connections: usize,
    /// Requests a second. In a closed loop the leaner proxy is idle longer, batches less and looks worse than
    /// it is.
    pub(super) rate: f64,
    pub(super) path: String,
    /// Bytes in the body of each answer.
    pub(super) body_bytes: u64,
    /// The key of the certificate; `None` for clients in the clear.
    pub(super) key: Option<Key>,
    /// Requests at a time on a connection of HTTP/3; `None` for HTTP/1.
    pub(super) http3_streams: Option<usize>,
    /// Whether access logs are written.
    pub(super) logs: bool,
    pub(super) feature: Option<Feature>,
    /// A second measurement after it.
    pub(super) then: Option<Then>,
}

/// A second measurement, after a load at a rate.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Then {
    /// The highest rate of wrk.
    Wrk,
    /// The highest rate of the generator.
    Closed,
    /// The same requests for a host without the feature, in Forebay.
    Proxied,
    /// The same load, during which system calls are counted.
    Counted,
}

/// New connections, each for one request without a body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Handshakes {
    pub(super) key: Key,
    #[serde(deserialize_with = "version")]
    pub(super) version: Version,
    pub(super) suite: String,
    #[serde(default)]
    pub(super) resume: bool,
    /// Connections a second, which the slowest peer carries with ease.
    pub(super) rate: f64,
}

/// The protocols of clients and upstreams.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Protocol {
    /// Clear HTTP/2 to clients, HTTP/1 to upstreams.
    Clear,
    /// HTTP/2 over TLS to clients, HTTP/1 to upstreams.
    Tls,
    /// Clear HTTP/2 on both sides.
    BothClear,
    /// The same with gRPC in it: a message each way.
    Grpc,
    /// The same with a thousand messages to the client.
    GrpcStream,
}

/// A load of redis-benchmark.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Redis {
    /// `GET`s that a client sends in a row before it waits.
    pub(super) pipelined: u32,
    /// About what redis-server and its benchmark do on one CPU: the benchmark takes a number, not a time.
    pub(super) requests_per_second: u64,
}

/// A goal of Forebay's.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Goal {
    pub(crate) what: String,
    /// `None` for Forebay.
    peer: Option<Peer>,
    figure: Figure,
    of: Option<Peer>,
    over: Option<Figure>,
    minus: Option<Figure>,
    /// Whether CPU is compared also where the two carried different loads, as they do in a closed loop.
    #[serde(default)]
    whatever_load: bool,
    at_most: Option<f64>,
    at_least: Option<f64>,
    above: Option<f64>,
    below: Option<f64>,
}

static GROUPS: LazyLock<Vec<Group>> =
    LazyLock::new(|| template::data("peers/workloads.yaml").expect("a test reads the file"));

/// All of them, in the order of the report.
pub(crate) fn groups() -> &'static [Group] {
    &GROUPS
}

/// The workloads of all groups.
#[cfg(test)]
pub(crate) fn all() -> impl Iterator<Item = &'static Workload> {
    groups().iter().flat_map(|group| &group.workloads)
}

impl Group {
    /// Its workloads' names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.workloads.iter().map(|workload| workload.name.as_str())
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

impl Default for Load {
    fn default() -> Load {
        Load {
            connections: 64,
            rate: 20_000.0,
            path: "/1k".into(),
            body_bytes: 1024,
            key: None,
            http3_streams: None,
            logs: false,
            feature: None,
            then: None,
        }
    }
}

impl Goal {
    /// Whether it is reached; `None` where a figure is missing.
    pub(crate) fn is_met(&self, results: &Results) -> Option<bool> {
        let value = self.value(results)?;
        let holds = |bound: Option<f64>, compare: fn(&f64, &f64) -> bool| {
            bound.is_none_or(|bound| compare(&value, &bound))
        };
        Some(
            holds(self.at_most, f64::le)
                && holds(self.at_least, f64::ge)
                && holds(self.above, f64::gt)
                && holds(self.below, f64::lt),
        )
    }

    fn value(&self, results: &Results) -> Option<f64> {
        let peer = self.peer.unwrap_or(Peer::Forebay);
        let value = results.median(peer, self.figure)?;
        if let Some(other) = self.of {
            // One that did not carry the load was never idle, batched more, and looks better than it is.
            let carried_as_much =
                || Some((results.ratio(peer, other, Figure::Rate)? - 1.0).abs() <= CARRIED_AS_MUCH);
            let is_comparable = self.figure != Figure::Cpu || self.whatever_load || carried_as_much()?;
            return is_comparable.then_some(value / results.median(other, self.figure)?);
        }
        match (self.over, self.minus) {
            (Some(other), _) => Some(value / results.median(peer, other)?),
            (_, Some(other)) => Some(value - results.median(peer, other)?),
            _ => Some(value),
        }
    }
}

fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Version, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "1.2" => Ok(Version::V1_2),
        "1.3" => Ok(Version::V1_3),
        other => Err(serde::de::Error::custom(format!("there is no TLS {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::figures::Figures;

    fn goal(yaml: &str) -> Goal {
        serde_saphyr::from_str(&format!("{{what: x, {yaml}}}")).expect("a goal")
    }

    #[test]
    fn every_workload_has_each_peer_once_and_forebay_and_a_bound_in_each_goal() {
        for workload in all() {
            let peers = &workload.peers;
            assert!(peers.is_sorted_by(|one, next| one < next), "{}", workload.name);
            assert!(peers.contains(&Peer::Forebay) || workload.name == "generator", "{}", workload.name);
            for goal in &workload.goals {
                let bounds = [goal.at_most, goal.at_least, goal.above, goal.below];
                assert_eq!(bounds.into_iter().flatten().count(), 1, "{}: {}", workload.name, goal.what);
            }
        }
    }

    #[test]
    fn every_feature_can_be_read() -> Result<()> {
        for workload in all() {
            let (Measure::Cost(load)
            | Measure::Added(load)
            | Measure::Compressed(load)
            | Measure::Conditions(load)
            | Measure::MirrorHanging(load)
            | Measure::CacheCollapse(load)) = &workload.measure
            else {
                continue;
            };
            load.feature.clone().map(|feature| feature.case(&load.path)).transpose()?;
        }
        Ok(())
    }

    #[test]
    fn goals_compare_with_peers_and_with_figures() {
        let mut results = Results::default();
        results.add(Peer::Nginx, Figures::from([(Figure::Cpu, 20.0), (Figure::Rate, 100.0)]));
        results.add(
            Peer::Forebay,
            Figures::from([(Figure::Cpu, 15.0), (Figure::Rate, 100.0), (Figure::Dropped, 0.0)]),
        );
        let is_met = |yaml| goal(yaml).is_met(&results);
        assert_eq!(is_met("figure: cpu, of: nginx, at-most: 0.75"), Some(true));
        assert_eq!(is_met("figure: cpu, of: nginx, below: 0.75"), Some(false));
        assert_eq!(is_met("figure: cpu, of: envoy, at-most: 0.75"), None);
        assert_eq!(is_met("figure: dropped, above: 0"), Some(false));
        assert_eq!(is_met("figure: rate, minus: cpu, at-least: 85"), Some(true));
        assert_eq!(is_met("peer: nginx, figure: rate, over: cpu, at-least: 5.1"), Some(false));
    }

    #[test]
    fn cpu_is_compared_where_both_carried_the_load() {
        let mut results = Results::default();
        results.add(Peer::Nginx, Figures::from([(Figure::Cpu, 20.0), (Figure::Rate, 90.0)]));
        results.add(Peer::Forebay, Figures::from([(Figure::Cpu, 15.0), (Figure::Rate, 100.0)]));
        assert_eq!(goal("figure: cpu, of: nginx, at-most: 1").is_met(&results), None);
        assert_eq!(
            goal("figure: cpu, of: nginx, whatever-load: true, at-most: 1").is_met(&results),
            Some(true)
        );
    }
}

//! The pieces of a translation, and which of them have to be made anew.
//!
//! Never in here: how a piece is made.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use model::{Host, HostName, Model, Stream};
use smallvec::SmallVec;

use super::asked::Asked;
use super::certificates::{Certificates, HostCertificate};
use super::class::Class;
use super::configmap::{self, Global};
use super::endpoints::{self, ClusterIds, Clusters, Like};
use super::hosts::{self, Built};
use super::lookup::{Lookup, Needs, Seen, Uses};
use super::readings::{AnnotatedByPlace, Reading, Readings};
use super::slots::Slots;
use super::{Annotated, RouteOrigin, Translation, order, streams};
use crate::index::Index;
use crate::options::Options;
use crate::problem::Problem;
use crate::resolve::Resolved;
use crate::source::PassedOver;

/// Translates, and keeps the pieces of what it made.
#[derive(Default)]
pub struct Translator {
    seen: Seen,
    needs: Needs,
    global: Option<GlobalPiece>,
    readings: Readings,
    /// Places of the readings, that of the oldest Ingress first.
    order: Vec<u32>,
    asked: Asked,
    clusters: endpoints::Store,
    hosts: HostSlots,
    streams: Option<StreamsPiece>,
}

/// The hosts by number.
pub(super) type HostSlots = Slots<HostName, Option<HostPiece>>;

/// What holds everywhere.
struct GlobalPiece {
    global: Global,
    /// The default certificate, if there is one.
    certificates: Vec<HostCertificate>,
    problems: Vec<Problem>,
    uses: Uses,
}

/// What was made of a host.
pub(super) struct HostPiece {
    /// Of its Ingresses, the oldest first.
    readings: SmallVec<[Arc<Reading>; 1]>,
    host: Arc<Host>,
    origins: Arc<[RouteOrigin]>,
    certificates: Box<[HostCertificate]>,
    problems: Box<[Problem]>,
    clusters: ClusterIds,
    uses: Uses,
}

struct StreamsPiece {
    streams: Vec<Stream>,
    problems: Vec<Problem>,
    clusters: ClusterIds,
    uses: Uses,
}

/// A reading and its place.
type Placed<'r> = (usize, &'r Arc<Reading>);

impl Translator {
    /// Translates all objects, as it is to be at a time.
    pub fn translate(
        &mut self,
        index: &Index,
        options: &Options,
        resolved: &Resolved,
        now: SystemTime,
    ) -> Translation {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().cast_signed();
        let changes = self.seen.changes(index, options, resolved, now);
        let lookup = Lookup::new(index, options, resolved, now, &changes, &mut self.needs);
        self.clusters.begin();
        let global = follow_global(&mut self.global, &lookup);
        let base = &global.global;
        let (annotated, is_changed) = self.readings.follow(index, base, &mut self.hosts, &lookup);
        if is_changed {
            self.order = order::by_age(self.readings.iter().map(|reading| &*reading.ingress));
        }
        let readings: Vec<_> = self.readings.iter().collect();
        let ours: Vec<_> = in_order(&self.order, &readings).collect();
        self.asked.ask(Like::of(&base.policy), ours.iter().map(|(_, reading)| &***reading), &lookup);
        let clusters = Clusters::new(&mut self.clusters, &lookup, &self.asked);
        let mut builder = Builder { hosts: &mut self.hosts, clusters, base, lookup: &lookup };
        let hosts = builder.follow(&ours, &annotated);
        let streams = builder.follow_streams(&mut self.streams);
        let hosts: Vec<_> = hosts.iter().filter_map(|&host| self.hosts.get(host).as_ref()).collect();
        let pieces = Pieces { global, readings: &readings, hosts: &hosts, streams };
        Translation {
            model: Model {
                hosts: hosts.iter().map(|piece| Arc::clone(&piece.host)).collect(),
                clusters: self.clusters.settle(&lookup),
                streams: streams.streams.clone(),
                settings: base.settings.clone(),
            },
            problems: pieces.problems(),
            passed_over: pieces.passed_over(),
            origins: hosts.iter().map(|piece| Arc::clone(&piece.origins)).collect(),
            ingresses: ours.iter().map(|(_, reading)| Arc::clone(&reading.ingress)).collect(),
            names: lookup.settle(),
            certificates: pieces.certificates(),
            valid_until: pieces.valid_until(),
        }
    }
}

/// The readings of Ingresses that are ours, the oldest first.
fn in_order<'r>(order: &[u32], readings: &[&'r Arc<Reading>]) -> impl Iterator<Item = Placed<'r>> {
    let placed = order.iter().map(|&place| (place as usize, readings[place as usize]));
    placed.filter(|(_, reading)| reading.class == Class::Ours)
}

/// What holds everywhere. Where that may differ, everything else is made anew.
fn follow_global<'g>(global: &'g mut Option<GlobalPiece>, lookup: &Lookup<'_>) -> &'g GlobalPiece {
    if let Some(old) = global.take_if(|old| lookup.is_stale(&old.uses)) {
        lookup.release(&old.uses);
        lookup.forget_everything();
    }
    global.get_or_insert_with(|| {
        let mut problems = Vec::new();
        let ((global, certificates), uses) = lookup.record(|| {
            let mut global = configmap::read(lookup, &mut problems);
            let mut certificates = Certificates::new(lookup);
            global.settings.tls.default_certificate = certificates.default();
            global.settings.stream.response_threshold = lookup.options.stream_response_threshold;
            (global, certificates)
        });
        lookup.replace(None, &uses);
        let Certificates { used: certificates, problems: of_certificates, .. } = certificates;
        problems.extend(of_certificates);
        GlobalPiece { global, certificates, problems, uses }
    })
}

// === hosts and streams ===

struct Builder<'b, 'a> {
    hosts: &'b mut HostSlots,
    clusters: Clusters<'b, 'a>,
    base: &'b Global,
    lookup: &'b Lookup<'a>,
}

/// The readings that are about a host, by their places among those that are ours.
type Group = SmallVec<[u32; 2]>;

impl Builder<'_, '_> {
    /// Makes those hosts anew that may differ, and forgets those that are gone. Returns the others in order of appearance.
    fn follow<'r>(&mut self, ours: &[Placed<'r>], annotated: &AnnotatedByPlace<'r>) -> Vec<u32> {
        let (hosts, groups) = self.group(ours);
        for &host in &hosts {
            let members = || groups[host as usize].iter().map(|&at| ours[at as usize]);
            let is_same = self.hosts.get(host).as_ref().is_some_and(|old| {
                old.readings.len() == groups[host as usize].len()
                    && old.readings.iter().zip(members()).all(|(old, (_, new))| Arc::ptr_eq(old, new))
                    && !self.lookup.is_stale(&old.uses)
            });
            if !is_same {
                let annotated: Vec<_> = members()
                    .map(|(place, reading)| {
                        annotated[place].get_or_init(|| {
                            let policy = &self.base.policy;
                            Annotated::read(&reading.ingress, policy, self.lookup, &mut Vec::new())
                        })
                    })
                    .collect();
                let readings = members().map(|(_, reading)| Arc::clone(reading)).collect();
                self.build(host, &annotated, readings);
            }
        }
        self.forget_others(&hosts);
        hosts
    }

    /// The hosts in order of appearance, and for each number of a host the Ingresses that are about it.
    fn group(&mut self, ours: &[Placed<'_>]) -> (Vec<u32>, Vec<Group>) {
        let any = self.lookup.options.default_backend_service.is_some();
        let any = any.then(|| self.hosts.number(&HostName::Any));
        let mut hosts = Vec::with_capacity(self.hosts.end());
        let mut groups = vec![Group::new(); self.hosts.end()];
        for (at, (_, reading)) in (0..).zip(ours) {
            for &host in &reading.hosts {
                let group = &mut groups[host as usize];
                if group.is_empty() {
                    hosts.push(host);
                }
                group.push(at);
            }
        }
        hosts.extend(any.filter(|&any| groups[any as usize].is_empty()));
        (hosts, groups)
    }

    fn build(&mut self, number: u32, ingresses: &[&Annotated<'_>], readings: SmallVec<[Arc<Reading>; 1]>) {
        let Self { hosts, clusters, base, lookup } = self;
        let name = Arc::clone(hosts.key(number));
        let (built, uses) = lookup.record(|| hosts::build(&name, ingresses, base, lookup, clusters));
        let Built { host, origins, certificates, mut problems } = built;
        let (given, of_clusters) = clusters.take_given();
        problems.extend(of_clusters);
        let old = hosts.get_mut(number).take();
        lookup.replace(old.as_ref().map(|old| &old.uses), &uses);
        clusters.replace(old.as_ref().map(|old| &old.clusters), &given);
        let known = old.as_ref().filter(|old| *old.origins == *origins);
        *hosts.get_mut(number) = Some(HostPiece {
            readings,
            host: hosts::take_over(host, old.as_ref().map(|old| &old.host)),
            origins: known.map_or_else(|| origins.into(), |old| Arc::clone(&old.origins)),
            certificates: certificates.into(),
            problems: problems.into(),
            clusters: given,
            uses,
        });
    }

    fn forget_others(&mut self, present: &[u32]) {
        let mut is_present = vec![false; self.hosts.end()];
        for &host in present {
            is_present[host as usize] = true;
        }
        for host in (0..).zip(is_present).filter(|(_, is_present)| !is_present).map(|(host, _)| host) {
            let piece = self.hosts.remove(host).and_then(|(_, piece)| piece);
            if let Some(HostPiece { clusters, uses, .. }) = piece {
                self.lookup.release(&uses);
                self.clusters.replace(Some(&clusters), &ClusterIds::new());
            }
        }
    }

    fn follow_streams<'s>(&mut self, streams: &'s mut Option<StreamsPiece>) -> &'s StreamsPiece {
        let Self { clusters, lookup, .. } = self;
        let old = streams.take_if(|old| lookup.is_stale(&old.uses));
        streams.get_or_insert_with(|| {
            let mut problems = Vec::new();
            let (streams, uses) = lookup.record(|| streams::build(lookup, clusters, &mut problems));
            let (given, of_clusters) = clusters.take_given();
            problems.extend(of_clusters);
            lookup.replace(old.as_ref().map(|old| &old.uses), &uses);
            clusters.replace(old.as_ref().map(|old| &old.clusters), &given);
            StreamsPiece { streams, problems, clusters: given, uses }
        })
    }
}

// === all together ===

struct Pieces<'p> {
    global: &'p GlobalPiece,
    readings: &'p [&'p Arc<Reading>],
    hosts: &'p [&'p HostPiece],
    streams: &'p StreamsPiece,
}

impl Pieces<'_> {
    /// What there is to say, by place. Several hosts may need the same thing that is missing.
    fn problems(&self) -> Vec<Problem> {
        let of_readings = self.readings.iter().flat_map(|reading| &reading.problems);
        let of_hosts = self.hosts.iter().flat_map(|host| &host.problems);
        let all = self.global.problems.iter().chain(of_readings).chain(of_hosts);
        let mut told = HashSet::new();
        let mut problems: Vec<_> =
            all.chain(&self.streams.problems).filter(|&problem| told.insert(problem)).collect();
        problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        problems.into_iter().cloned().collect()
    }

    fn passed_over(&self) -> PassedOver {
        let others = self.readings.iter().filter(|reading| reading.class == Class::Other).count();
        let count = ("Ingress of another class".to_owned(), others);
        if others > 0 { PassedOver::from([count]) } else { PassedOver::new() }
    }

    fn certificates(&self) -> Vec<HostCertificate> {
        let of_hosts = self.hosts.iter().flat_map(|host| &host.certificates);
        self.global.certificates.iter().chain(of_hosts).cloned().collect()
    }

    fn valid_until(&self) -> Option<i64> {
        let of_readings = self.readings.iter().map(|reading| &reading.uses);
        let of_hosts = self.hosts.iter().map(|host| &host.uses);
        let all = [&self.global.uses, &self.streams.uses].into_iter().chain(of_readings).chain(of_hosts);
        all.filter_map(|uses| uses.until).min()
    }
}

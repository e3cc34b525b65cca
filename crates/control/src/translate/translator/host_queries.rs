//! The queries of hosts: the Ingresses with a claim about each host, and their order.
//!
//! Never in here: how claims are merged.

use std::collections::HashMap;
use std::sync::Arc;

use model::HostName;

use crate::translate::clusters::ClusterQueries;
use crate::translate::host_piece::{Group, HostPiece};
use crate::translate::hosts::{self, Defaults, WildcardTls};
use crate::translate::ingress::{Claimants, Ingresses};
use crate::translate::memo::{Memo, Revisions};

/// Makes hosts of the claims about them.
pub(super) struct HostQueries<'q, 'a> {
    /// The number of the host for all names, if the default backend receives its requests.
    pub(super) any: Option<u32>,
    pub(super) ingresses: &'q Ingresses,
    pub(super) claimants: &'q Claimants<'q, 'a>,
    pub(super) defaults: &'q Defaults<'q>,
    pub(super) revisions: &'q Revisions,
}

/// The numbers of the wildcard hosts that Ingresses serve over TLS, by their domains.
pub(super) type Wildcards = HashMap<String, u32>;

impl HostQueries<'_, '_> {
    /// Updates the hosts whose inputs have changed. Returns the numbers of all hosts in order of appearance.
    pub(super) fn follow_all(
        &self,
        memo: &mut Memo<HostName, HostPiece>,
        clusters: &mut ClusterQueries<'_, '_>,
    ) -> (Vec<u32>, Wildcards) {
        let ingresses = self.ingresses;
        let (order, groups) = group(memo.end(), ingresses, self.any);
        let wildcards = wildcards_with_tls(memo, &order, &groups, ingresses);
        for &number in &order {
            let wildcard = wildcard_of(memo.key(number), &wildcards);
            // A wildcard that is younger than the host and of another namespace changes nothing of the host.
            let is_foreign = |&wildcard: &u32| {
                let owner = |number: u32| {
                    let mut group = groups[number as usize].iter();
                    group.find(|&&one| !ingresses.is_canary(one)).map(|&first| ingresses.owner(first))
                };
                owner(number).zip(owner(wildcard)).is_some_and(|(own, other)| own.precedes(&other))
            };
            let wildcard = wildcard.filter(|wildcard| !is_foreign(wildcard)).map(|wildcard| {
                // The wildcard is updated first, whatever the order of hosts: the host needs to know its
                // certificate.
                self.follow(memo, wildcard, &groups[wildcard as usize], None, clusters);
                WildcardTls { certificate: memo.value(wildcard).host.tls.certificate.clone() }
            });
            self.follow(memo, number, &groups[number as usize], wildcard.as_ref(), clusters);
        }
        (order, wildcards)
    }

    /// Updates a host, about which these Ingresses have claims.
    pub(super) fn follow(
        &self,
        memo: &mut Memo<HostName, HostPiece>,
        number: u32,
        group: &[u32],
        wildcard: Option<&WildcardTls>,
        clusters: &mut ClusterQueries<'_, '_>,
    ) {
        let Self { any, ingresses, claimants, defaults, revisions } = *self;
        memo.get(
            number,
            revisions,
            |old| *old.claimants == *group && is_same(old.wildcard(), wildcard),
            |name, old| {
                let (canaries, mainlines): (Vec<u32>, Vec<u32>) =
                    group.iter().partition(|&&ingress| ingresses.is_canary(ingress));
                let canaries: Vec<_> =
                    canaries.into_iter().map(|ingress| claimants.canary(ingress, name)).collect();
                let is_served = !mainlines.is_empty() || any == Some(number);
                let merged = if is_served {
                    let claims =
                        mainlines.into_iter().map(|ingress| claimants.claim(ingress, name)).collect();
                    hosts::merge(name, claims, &canaries, defaults, wildcard, clusters)
                } else {
                    hosts::unclaimed(name, &canaries, defaults.tls)
                };
                // Ingresses that are no canaries come first; their claims are numbered in the same order.
                let aliases_by = merged.aliases_by.map(|number| group[number]);
                HostPiece::new(group, is_served, wildcard.cloned(), merged, aliases_by, old.as_ref())
            },
        );
    }
}

fn is_same(old: Option<&WildcardTls>, new: Option<&WildcardTls>) -> bool {
    let address = |tls: &WildcardTls| tls.certificate.as_ref().map(Arc::as_ptr);
    old.map(address) == new.map(address)
}

fn wildcards_with_tls(
    memo: &Memo<HostName, HostPiece>,
    order: &[u32],
    groups: &[Group],
    ingresses: &Ingresses,
) -> Wildcards {
    let has_tls = |number: u32| groups[number as usize].iter().any(|&ingress| ingresses.has_tls(ingress));
    let domain = |&number: &u32| match memo.key(number) {
        HostName::OneLabel(domain) if has_tls(number) => Some((domain.clone(), number)),
        _ => None,
    };
    order.iter().filter_map(domain).collect()
}

/// The number of the wildcard that matches a host; none if no wildcard does.
pub(super) fn wildcard_of(host: &HostName, wildcards: &Wildcards) -> Option<u32> {
    let HostName::Exact(name) = host else { return None };
    name.split_once('.').and_then(|(_, domain)| wildcards.get(domain).copied())
}

/// The hosts in order of appearance, and for each host number the Ingresses with a claim about it: canaries
/// after the others.
fn group(end: usize, ingresses: &Ingresses, any: Option<u32>) -> (Vec<u32>, Vec<Group>) {
    let mut order = Vec::with_capacity(end);
    let mut groups = vec![Group::new(); end];
    let is_canary = |(ingress, _): &(u32, &[u32])| ingresses.is_canary(*ingress);
    let mainlines = ingresses.hosts().filter(|one| !is_canary(one));
    for (ingress, hosts) in mainlines.chain(ingresses.hosts().filter(is_canary)) {
        for &host in hosts {
            let group = &mut groups[host as usize];
            if group.is_empty() {
                order.push(host);
            }
            group.push(ingress);
        }
    }
    order.extend(any.filter(|&any| groups[any as usize].is_empty()));
    (order, groups)
}

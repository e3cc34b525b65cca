//! Changes of few served Ingresses: which of them concern only the hosts of these Ingresses, and the order by
//! age after them.
//!
//! Never in here: hosts, but for their numbers.

use std::sync::Arc;

use model::{HostName, List};

use super::class::Class;
use super::{ByAddress, Ingresses, Settings, order, parse, rules};
use crate::names::{NsName, PortRef};
use crate::objects::{Ingress, Sourced};
use crate::translate::changes::{Replaced, These};
use crate::translate::inputs::Inputs;
use crate::translate::memo::Revisions;

/// A changed Ingress that is served before and after the change, as far as it exists.
pub(in crate::translate) struct Turnover {
    /// The number of the former version; none for an added Ingress.
    pub(in crate::translate) old: Option<u32>,
    /// The number of the present version; none for a removed Ingress.
    pub(in crate::translate) new: Option<u32>,
    /// The present version has the place of the former one in the order by age.
    pub(in crate::translate) keeps_place: bool,
}

impl Turnover {
    /// The numbers of both versions.
    pub(in crate::translate) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.old.into_iter().chain(self.new)
    }
}

impl Ingresses {
    /// Reads changed Ingresses. None if the change may concern more than their hosts; nothing is served of
    /// the change then.
    pub(in crate::translate) fn turn_over(
        &mut self,
        these: &These,
        base: &Settings,
        inputs: &Inputs<'_>,
        revisions: &Revisions,
        number_of_host: &mut impl FnMut(HostName) -> u32,
    ) -> Option<Vec<Turnover>> {
        // Whoever visits all Ingresses next orders them again.
        self.all = None;
        let all_dated = self.ours.last().is_none_or(|&youngest| self.birth(youngest).is_some());
        if !self.kept.is_empty() || !these.in_place && !all_dated {
            return None;
        }
        let mut turnovers = Vec::with_capacity(these.ingresses.len());
        for Replaced { old, new } in &these.ingresses {
            let old = match old {
                Some(old) => Some(self.parsed.find(&ByAddress(Arc::clone(old)))?),
                None => None,
            };
            let new = new.as_ref().map(|new| {
                let number = self.parsed.number(ByAddress(Arc::clone(new)), revisions);
                let make = |ByAddress(ingress): &ByAddress, _| parse(ingress, base, inputs, number_of_host);
                self.parsed.get(number, revisions, |_| true, make);
                number
            });
            if let (Some(old), Some(new)) = (old, new)
                && self.is_of_others(old)
                && self.is_of_others(new)
            {
                continue;
            }
            turnovers.push(self.turnover(old, new)?);
        }
        Some(turnovers)
    }

    /// Both versions of an Ingress; none if they concern more than their hosts.
    fn turnover(&self, old: Option<u32>, new: Option<u32>) -> Option<Turnover> {
        if !old.into_iter().chain(new).all(|number| self.is_usual(number)) {
            return None;
        }
        let until = |number: Option<u32>| number.map_or(i64::MAX, |number| self.parsed.until_of(number));
        if until(old) != until(new) {
            return None;
        }
        let keeps_place = match (old, new) {
            (Some(old), Some(new)) => self.birth(old) == self.birth(new),
            _ => false,
        };
        let is_dated = new.is_none_or(|new| self.birth(new).is_some());
        let has_same_hosts = || {
            let hosts = |number: Option<u32>| number.map(|number| self.hosts_of(number));
            hosts(old) == hosts(new)
        };
        let is_placed = is_dated || keeps_place && has_same_hosts();
        is_placed.then_some(Turnover { old, new, keeps_place })
    }

    /// Puts the present versions in the place of the former ones, also in the list of the served objects.
    pub(in crate::translate) fn take_over(
        &mut self,
        turnovers: &[Turnover],
        list: &mut List<Arc<Sourced<Ingress>>>,
    ) {
        for turnover in turnovers {
            let place = |old| self.ours.iter().position(|&number| number == old);
            let before = turnover.old.and_then(place);
            if let (Some(at), Some(new), true) = (before, turnover.new, turnover.keeps_place) {
                self.ours[at] = new;
                list.replace(at, Arc::clone(&self.parsed.key(new).0));
                continue;
            }
            if let Some(at) = before {
                self.ours.remove(at);
                list.remove(at);
            }
            if let Some(new) = turnover.new {
                let at = self.ours.partition_point(|&other| self.is_older(other, new));
                self.ours.insert(at, new);
                list.insert(at, Arc::clone(&self.parsed.key(new).0));
            }
        }
    }

    /// Removes a former version, of which no host is made any more.
    pub(in crate::translate) fn forget(&mut self, number: u32, revisions: &Revisions) {
        self.parsed.remove(number, revisions);
    }

    /// Whether versions before the present ones are served.
    pub(in crate::translate) fn keeps_any(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Whether an Ingress is older than another one.
    pub(in crate::translate) fn is_older(&self, number: u32, other: u32) -> bool {
        order::is_older(&self.parsed.key(number).0, &self.parsed.key(other).0)
    }

    /// The numbers of an Ingress's hosts, in order of appearance.
    pub(in crate::translate) fn hosts_of(&self, number: u32) -> &[u32] {
        self.parsed.peek(number).map_or(&[], |parsed| &parsed.hosts)
    }

    /// The backends that an Ingress names.
    pub(in crate::translate) fn backends_of(
        &self,
        number: u32,
    ) -> impl Iterator<Item = (NsName, PortRef)> + use<'_> {
        rules::backends(&self.parsed.key(number).0)
    }

    fn birth(&self, number: u32) -> Option<u64> {
        order::birth(&self.parsed.key(number).0)
    }

    fn is_of_others(&self, number: u32) -> bool {
        let of_others =
            |parsed: &super::ParsedIngress| parsed.class == Class::Other && parsed.problems().is_empty();
        self.parsed.peek(number).is_some_and(of_others)
    }

    /// Whether an Ingress is served, and says nothing that concerns more than its hosts.
    fn is_usual(&self, number: u32) -> bool {
        self.parsed.peek(number).is_some_and(|parsed| {
            parsed.class == Class::Ours && !parsed.is_canary && parsed.balancing().is_none()
        })
    }
}

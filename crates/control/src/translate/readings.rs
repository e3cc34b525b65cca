//! What each Ingress comes to, before it is known what else there is at its hosts.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use super::certificates::Certificates;
use super::class::{self, Class};
use super::configmap::Global;
use super::endpoints::Like;
use super::lookup::{Lookup, Uses};
use super::translator::HostSlots;
use super::{Annotated, hosts, hosts_of};
use crate::index::Index;
use crate::objects::{Ingress, Sourced};
use crate::problem::Problem;

/// What an Ingress comes to, without what is made of it at its hosts.
pub(super) struct Reading {
    pub(super) ingress: Arc<Sourced<Ingress>>,
    pub(super) class: Class,
    /// The hosts that it has something to say about, in order of appearance.
    pub(super) hosts: SmallVec<[u32; 2]>,
    /// What it asks of the Services that it names.
    pub(super) like: Like,
    pub(super) problems: Box<[Problem]>,
    pub(super) uses: Uses,
}

/// The readings of all Ingresses, as those stand in the index.
#[derive(Default)]
pub(super) struct Readings(Vec<Option<Arc<Reading>>>);

/// The Ingresses with what their annotations ask for, by place; what was not read anew is read when it is asked for.
pub(super) type AnnotatedByPlace<'a> = Box<[OnceCell<Annotated<'a>>]>;

impl Readings {
    /// Goes over to the Ingresses of an index. Returns what was read of their annotations, and whether anything changed.
    pub(super) fn follow<'i>(
        &mut self,
        index: &'i Index,
        base: &Global,
        hosts: &mut HostSlots,
        lookup: &Lookup<'_>,
    ) -> (AnnotatedByPlace<'i>, bool) {
        let mut elsewhere = self.align(index);
        let mut is_changed = !elsewhere.is_empty();
        let mut annotated = Vec::with_capacity(self.0.len());
        for (place, ingress) in self.0.iter_mut().zip(index.ingresses.iter()) {
            let cell = OnceCell::new();
            let known = place.take().or_else(|| elsewhere.remove(&Arc::as_ptr(ingress)));
            let reading = known.as_ref().filter(|known| !lookup.is_stale(&known.uses)).cloned();
            is_changed |= reading.is_none();
            *place = Some(reading.unwrap_or_else(|| {
                let (reading, found) = read(ingress, base, hosts, lookup);
                lookup.replace(known.as_ref().map(|known| &known.uses), &reading.uses);
                if let Some(found) = found {
                    let _ = cell.set(found);
                }
                Arc::new(reading)
            }));
            annotated.push(cell);
        }
        for gone in elsewhere.values() {
            lookup.release(&gone.uses);
        }
        (annotated.into(), is_changed)
    }

    /// The readings, as their Ingresses stand in the index.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Reading>> {
        self.0.iter().flatten()
    }

    /// Leaves the readings whose Ingress is where it was; returns the others, by Ingress.
    fn align(&mut self, index: &Index) -> HashMap<*const Sourced<Ingress>, Arc<Reading>, FixedState> {
        let mut elsewhere = Vec::new();
        let mut count = 0;
        for ingress in index.ingresses.iter() {
            match self.0.get_mut(count) {
                Some(Some(reading)) if Arc::ptr_eq(&reading.ingress, ingress) => {}
                Some(place) => elsewhere.extend(place.take()),
                None => self.0.push(None),
            }
            count += 1;
        }
        elsewhere.extend(self.0.drain(count..).flatten());
        elsewhere.into_iter().map(|reading| (Arc::as_ptr(&reading.ingress), reading)).collect()
    }
}

fn read<'i>(
    ingress: &'i Arc<Sourced<Ingress>>,
    base: &Global,
    slots: &mut HostSlots,
    lookup: &Lookup<'_>,
) -> (Reading, Option<Annotated<'i>>) {
    let mut problems = Vec::new();
    let ((class, annotated), uses) = lookup.record(|| {
        let class = class::of(ingress, lookup, &mut problems);
        let annotated = (class == Class::Ours).then(|| {
            let mut certificates = Certificates::new(lookup);
            certificates.check(ingress);
            problems.append(&mut certificates.problems);
            Annotated::read(ingress, &base.policy, lookup, &mut problems)
        });
        (class, annotated)
    });
    let mut hosts = SmallVec::new();
    if annotated.as_ref().is_some_and(|annotated| !annotated.policy.is_canary) {
        hosts::check(ingress, &mut problems);
        for name in hosts_of(ingress) {
            let host = slots.number(&name);
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
    }
    let like = annotated.as_ref().map(|annotated| Like::of(&annotated.policy)).unwrap_or_default();
    let ingress = Arc::clone(ingress);
    (Reading { ingress, class, hosts, like, problems: problems.into(), uses }, annotated)
}

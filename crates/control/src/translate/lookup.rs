//! What translation looks at beside the object in hand, and a note of it: so that a piece of work need not be done again
//! until something that it looked at differs.
//!
//! Never in here: what is made of it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;

use super::slots::Slots;
use crate::index::{Index, Store};
use crate::names::NsName;
use crate::objects::{ConfigMap, EndpointSlice, Endpoints, IngressClass, Resource, Secret, Service, Sourced};
use crate::options::Options;
use crate::resolve::Resolved;

/// Something that is looked at, be it there or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Need {
    Class(String),
    ConfigMap(NsName),
    /// Which `ConfigMap`s there are.
    ConfigMaps,
    Secret(NsName),
    /// A Service, its `EndpointSlice`s and `Endpoints`, and what Ingresses ask of it together.
    Service(NsName),
    /// The addresses of a name outside the cluster.
    Name(String),
}

/// What a piece of work has looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    needs: SmallVec<[u32; 4]>,
    /// Second since 1970 from which the same objects give something else.
    pub(super) until: Option<i64>,
}

/// What all pieces of work have looked at, from one translation to the next.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// With the number of pieces that need it.
    known: Slots<Need, u32>,
    /// Those that may be needed by none.
    doubtful: Vec<u32>,
    /// By number, for the translation at hand.
    changed: Vec<bool>,
    names: BTreeSet<String>,
}

/// The objects of a translation, which are looked at through this.
pub(super) struct Lookup<'a> {
    index: &'a Index,
    pub(super) options: &'a Options,
    resolved: &'a Resolved,
    /// Seconds since 1970.
    pub(super) now: i64,
    /// Nothing that was made before is of use.
    is_all_new: Cell<bool>,
    notes: RefCell<Notes<'a>>,
}

struct Notes<'a> {
    needs: &'a mut Needs,
    /// Of the pieces of work at hand, each part of the one before.
    open: Vec<Uses>,
}

/// What differs from the translation before.
pub(super) enum Changes {
    Everything,
    These(Vec<Need>),
}

// === impl Needs ===

impl Needs {
    /// Something depends on these.
    pub(super) fn hold(&mut self, uses: &Uses) {
        for &need in &uses.needs {
            *self.known.get_mut(need) += 1;
        }
    }

    /// Something no longer depends on these.
    pub(super) fn release(&mut self, uses: &Uses) {
        for &need in &uses.needs {
            let holders = self.known.get_mut(need);
            *holders -= 1;
            if *holders == 0 {
                self.doubtful.push(need);
            }
        }
    }

    /// Forgets what nothing depends on any more.
    pub(super) fn settle(&mut self) {
        for need in std::mem::take(&mut self.doubtful) {
            if self.known.has(need)
                && *self.known.get(need) == 0
                && let Some((need, _)) = self.known.remove(need)
                && let Need::Name(name) = &*need
            {
                self.names.remove(name);
            }
        }
    }

    fn number(&mut self, need: &Need) -> u32 {
        let number = self.known.number(need);
        if *self.known.get(number) == 0 {
            self.doubtful.push(number);
            if let Need::Name(name) = need {
                self.names.insert(name.clone());
            }
        }
        number
    }

    fn note_change(&mut self, need: &Need) {
        if let Some(number) = self.known.find(need) {
            self.changed[number as usize] = true;
        }
    }
}

impl Uses {
    fn add(&mut self, need: u32) {
        if !self.needs.contains(&need) {
            self.needs.push(need);
        }
    }

    fn until(&mut self, turn: i64) {
        self.until = Some(self.until.map_or(turn, |known| known.min(turn)));
    }
}

// === impl Lookup ===

impl<'a> Lookup<'a> {
    pub(super) fn new(
        index: &'a Index,
        options: &'a Options,
        resolved: &'a Resolved,
        now: i64,
        changes: &Changes,
        needs: &'a mut Needs,
    ) -> Self {
        needs.changed.clear();
        needs.changed.resize(needs.known.end(), false);
        if let Changes::These(changed) = changes {
            for need in changed {
                needs.note_change(need);
            }
        }
        let is_all_new = Cell::new(matches!(changes, Changes::Everything));
        let notes = RefCell::new(Notes { needs, open: Vec::new() });
        Self { index, options, resolved, now, is_all_new, notes }
    }

    /// Does a piece of work; returns what it looked at, too. That counts for the work which it is part of as well.
    pub(super) fn record<T>(&self, work: impl FnOnce() -> T) -> (T, Uses) {
        self.notes.borrow_mut().open.push(Uses::default());
        let done = work();
        let uses = self.notes.borrow_mut().open.pop().unwrap_or_default();
        self.add(&uses);
        (done, uses)
    }

    /// What the work at hand takes over depends on these.
    pub(super) fn add(&self, uses: &Uses) {
        if let Some(open) = self.notes.borrow_mut().open.last_mut() {
            uses.needs.iter().for_each(|&need| open.add(need));
            uses.until.into_iter().for_each(|turn| open.until(turn));
        }
    }

    /// Whether something that a piece of work looked at in an earlier translation differs now.
    pub(super) fn is_stale(&self, uses: &Uses) -> bool {
        let notes = self.notes.borrow();
        self.is_all_new.get()
            || uses.until.is_some_and(|turn| turn <= self.now)
            || uses.needs.iter().any(|&need| notes.needs.changed[need as usize])
    }

    /// Puts one piece of work in the place of another.
    pub(super) fn replace(&self, old: Option<&Uses>, new: &Uses) {
        let mut notes = self.notes.borrow_mut();
        notes.needs.hold(new);
        if let Some(old) = old {
            notes.needs.release(old);
        }
    }

    /// A piece of work is gone.
    pub(super) fn release(&self, uses: &Uses) {
        self.notes.borrow_mut().needs.release(uses);
    }

    /// Forgets what no piece of work depends on any more. Tells the names whose addresses some do.
    pub(super) fn settle(&self) -> BTreeSet<String> {
        let mut notes = self.notes.borrow_mut();
        notes.needs.settle();
        notes.needs.names.clone()
    }

    /// Nothing that was made before is of use after all.
    pub(super) fn forget_everything(&self) {
        self.is_all_new.set(true);
    }

    /// Something that is looked at differs after all.
    pub(super) fn note_change(&self, need: &Need) {
        self.notes.borrow_mut().needs.note_change(need);
    }

    /// The same objects give something else from a second since 1970 on, if that is still to come.
    pub(super) fn note_turn(&self, turn: i64) {
        if turn > self.now
            && let Some(open) = self.notes.borrow_mut().open.last_mut()
        {
            open.until(turn);
        }
    }

    /// Whether the Ingresses of a namespace are served.
    pub(super) fn serves(&self, namespace: &str) -> bool {
        self.index.namespaces.as_ref().is_none_or(|selected| selected.contains(namespace))
    }

    pub(super) fn class(&self, name: &str) -> Option<&'a Sourced<IngressClass>> {
        self.note(&Need::Class(name.to_owned()));
        self.index.classes.get(&NsName::new("", name))
    }

    pub(super) fn configmap(&self, name: &NsName) -> Option<&'a Sourced<ConfigMap>> {
        self.note(&Need::ConfigMap(name.clone()));
        self.index.configmaps.get(name)
    }

    pub(super) fn configmaps(&self) -> impl Iterator<Item = &'a Sourced<ConfigMap>> {
        self.note(&Need::ConfigMaps);
        self.index.configmaps.iter().map(|configmap| &**configmap)
    }

    pub(super) fn secret(&self, name: &NsName) -> Option<&'a Sourced<Secret>> {
        self.note(&Need::Secret(name.clone()));
        self.index.secrets.get(name)
    }

    pub(super) fn service(&self, name: &NsName) -> Option<&'a Sourced<Service>> {
        self.note(&Need::Service(name.clone()));
        self.index.services.get(name)
    }

    pub(super) fn slices(&self, service: &NsName) -> &'a [Arc<Sourced<EndpointSlice>>] {
        self.note(&Need::Service(service.clone()));
        self.index.slices_of(service)
    }

    pub(super) fn endpoints(&self, service: &NsName) -> Option<&'a Sourced<Endpoints>> {
        self.note(&Need::Service(service.clone()));
        self.index.endpoints.get(service)
    }

    /// The addresses of an outside name; none while it is being looked up.
    pub(super) fn addresses(&self, name: &str) -> Option<&'a Result<Vec<IpAddr>, String>> {
        self.note(&Need::Name(name.to_owned()));
        self.resolved.get(name)
    }

    fn note(&self, need: &Need) {
        let Notes { needs, open } = &mut *self.notes.borrow_mut();
        let Some(open) = open.last_mut() else { return };
        let number = needs.number(need);
        // A number that is given for the first time, or again, stands for nothing that has changed since.
        needs.changed.resize(needs.known.end().max(needs.changed.len()), false);
        open.add(number);
    }
}

// === what differs ===

/// The objects as the translation before saw them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    classes: Vec<Arc<Sourced<IngressClass>>>,
    configmaps: Vec<Arc<Sourced<ConfigMap>>>,
    secrets: Vec<Arc<Sourced<Secret>>>,
    services: Vec<Arc<Sourced<Service>>>,
    slices: Vec<Arc<Sourced<EndpointSlice>>>,
    endpoints: Vec<Arc<Sourced<Endpoints>>>,
    rest: Option<Rest>,
}

#[derive(Debug, PartialEq)]
struct Rest {
    options: Options,
    namespaces: Option<BTreeSet<String>>,
    resolved: Resolved,
    now: i64,
}

impl Seen {
    /// What differs from before. Objects are told apart by their addresses: it keeps hold of them, so that nothing else can be
    /// there meanwhile.
    pub(super) fn changes(
        &mut self,
        index: &Index,
        options: &Options,
        resolved: &Resolved,
        now: i64,
    ) -> Changes {
        let mut changes = Vec::new();
        differences(&mut self.classes, &index.classes, |class| {
            changes.push(Need::Class(class.name().to_owned()));
        });
        differences(&mut self.configmaps, &index.configmaps, |configmap| {
            changes.extend([Need::ConfigMap(configmap.key()), Need::ConfigMaps]);
        });
        differences(&mut self.secrets, &index.secrets, |secret| changes.push(Need::Secret(secret.key())));
        differences(&mut self.services, &index.services, |it| changes.push(Need::Service(it.key())));
        differences(&mut self.endpoints, &index.endpoints, |it| changes.push(Need::Service(it.key())));
        differences(&mut self.slices, &index.slices, |slice| {
            let service = slice.service_name().map(|name| NsName::new(slice.namespace(), name));
            changes.extend(service.map(Need::Service));
        });
        let rest = &mut self.rest;
        let same = rest.as_ref().filter(|rest| {
            // A clock that was set back may be before a turn that has been taken.
            rest.options == *options && rest.namespaces == index.namespaces && rest.now <= now
        });
        let Some(same) = same else {
            let namespaces = index.namespaces.clone();
            *rest = Some(Rest { options: options.clone(), namespaces, resolved: resolved.clone(), now });
            return Changes::Everything;
        };
        if same.resolved != *resolved {
            let names = same.resolved.keys().chain(resolved.keys());
            let differs = |name: &&String| same.resolved.get(*name) != resolved.get(*name);
            changes.extend(names.filter(differs).cloned().map(Need::Name));
            *rest = rest.take().map(|rest| Rest { resolved: resolved.clone(), ..rest });
        }
        if let Some(rest) = rest {
            rest.now = now;
        }
        Changes::These(changes)
    }
}

/// Tells each object that has come or gone, and goes over to those that are there now.
fn differences<T: Resource>(
    before: &mut Vec<Arc<Sourced<T>>>,
    now: &Store<T>,
    mut differs: impl FnMut(&Sourced<T>),
) {
    let mut gone = Vec::new();
    let mut come = Vec::new();
    let mut count = 0;
    for object in now.iter() {
        match before.get_mut(count) {
            Some(old) if Arc::ptr_eq(old, object) => {}
            Some(old) => {
                gone.push(std::mem::replace(old, Arc::clone(object)));
                come.push(object);
            }
            None => {
                before.push(Arc::clone(object));
                come.push(object);
            }
        }
        count += 1;
    }
    gone.extend(before.drain(count..));
    // Those that only changed places are in both.
    let mut places: foldhash::HashSet<_> = gone.iter().map(Arc::as_ptr).collect();
    come.into_iter().filter(|object| !places.remove(&Arc::as_ptr(object))).for_each(|it| differs(it));
    gone.iter().filter(|object| places.contains(&Arc::as_ptr(object))).for_each(|it| differs(it));
}

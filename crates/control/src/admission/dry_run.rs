//! Translates one Ingress together with the objects around it, without serving the result, and collects the
//! problems that the Ingress would have.

use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use model::HostName;

use super::verdict::Verdict;
use crate::index::Index;
use crate::names::NsName;
use crate::objects::{Ingress, Object, Sourced};
use crate::options::Options;
use crate::problem::{Problem, Reason, Severity};
use crate::resolve::Resolved;
use crate::translate::ingress::class::is_ours;
use crate::translate::ingress::hosts_of;
use crate::translate::ingress::order::by_age;
use crate::translate::ingress::own::{self, OwnNames};
use crate::translate::translate;

/// The objects that decide the class of an Ingress and the defaults of its annotations: classes and the
/// settings.
pub(super) fn rules(index: &Index, options: &Options) -> Index {
    let mut near = Index::default();
    near.namespaces.clone_from(&index.namespaces);
    for class in index.classes.iter() {
        near.apply(&Object::IngressClass(Arc::clone(class)));
    }
    let settings = options.configmap.as_ref().and_then(|name| index.configmaps.shared(name));
    if let Some(settings) = settings {
        near.apply(&Object::ConfigMap(Arc::clone(settings)));
    }
    near
}

/// The objects that can affect an Ingress: the [`rules`], the stored version of the Ingress, the Ingresses
/// that share a host with it, and the objects that these name. Endpoints are left out, because they do not
/// decide whether an Ingress is valid.
pub(super) fn around(ingress: &Sourced<Ingress>, index: &Index, options: &Options) -> Index {
    let mut near = rules(index, options);
    let key = ingress.key();
    let hosts: HashSet<_> = hosts_of(ingress).collect();
    for other in index.ingresses.iter() {
        if other.key() == key || hosts_of(other).any(|host| hosts.contains(&host)) {
            near.apply(&Object::Ingress(Arc::clone(other)));
            add_secrets(&mut near, other, index, options);
        }
    }
    add_secrets(&mut near, ingress, index, options);
    add_services(&mut near, ingress, index);
    near
}

/// Adds the Secrets that `tls` and annotations name, and the `ConfigMap`s that our own annotations name.
/// Whether an annotation may name a Secret of another namespace is decided when the annotation is read.
fn add_secrets(near: &mut Index, ingress: &Sourced<Ingress>, index: &Index, options: &Options) {
    let of_tls = ingress.spec.tls.iter().filter_map(|tls| tls.value.secret_name.as_ref());
    let of_tls = of_tls.map(|name| NsName::new(ingress.namespace(), &name.value));
    let is_our_annotation =
        |key: &str| key.split_once('/').is_some_and(|(prefix, _)| prefix == options.annotations_prefix);
    let annotations = ingress.metadata.annotations.iter().filter(|(key, _)| is_our_annotation(key));
    let of_annotations = annotations.filter_map(|(_, value)| value.value.trim().parse::<NsName>().ok());
    for secret in of_tls.chain(of_annotations).filter_map(|name| index.secrets.shared(&name)) {
        near.apply(&Object::Secret(Arc::clone(secret)));
    }
    let OwnNames { secrets, configmaps } = own::named_by(ingress);
    for secret in secrets.iter().filter_map(|name| index.secrets.shared(name)) {
        near.apply(&Object::Secret(Arc::clone(secret)));
    }
    for configmap in configmaps.iter().filter_map(|name| index.configmaps.shared(name)) {
        near.apply(&Object::ConfigMap(Arc::clone(configmap)));
    }
}

fn add_services(near: &mut Index, ingress: &Sourced<Ingress>, index: &Index) {
    let paths = ingress.spec.rules.iter().flat_map(|rule| &rule.value.http).flat_map(|http| &http.paths);
    let of_paths = paths.map(|path| &path.value.backend);
    let of_default = ingress.spec.default_backend.as_deref().map(|backend| &backend.value);
    let named: HashSet<_> =
        of_paths.chain(of_default).filter_map(|backend| backend.service()).map(|(name, _)| name).collect();
    let of_annotation =
        ingress.metadata.annotations.iter().filter(|(key, _)| key.ends_with("/default-backend"));
    let of_annotation = of_annotation.map(|(_, value)| value.value.trim());
    for name in named.into_iter().chain(of_annotation) {
        if let Some(service) = index.services.shared(&NsName::new(ingress.namespace(), name)) {
            near.apply(&Object::Service(Arc::clone(service)));
        }
    }
}

/// The objects among which an Ingress is translated.
pub(super) struct DryRun<'a> {
    pub(super) near: &'a Index,
    pub(super) options: &'a Options,
    pub(super) now: SystemTime,
    /// Time that translations have taken so far.
    pub(super) translating: Cell<Duration>,
}

impl DryRun<'_> {
    /// Judges an Ingress that is to be stored.
    pub(super) fn verdict(&self, ingress: &Arc<Sourced<Ingress>>, is_new: bool) -> Verdict {
        if is_new {
            return Verdict::of(&self.as_youngest(ingress));
        }
        let mut conflicts = self.conflicts(ingress);
        let before = self.near.ingresses.shared(&ingress.key());
        // A conflict that the stored Ingress already has is no reason to refuse another change.
        if let Some(before) = before.filter(|_| !conflicts.is_empty()) {
            let standing = messages(self.conflicts(before));
            conflicts.retain(|conflict| !standing.contains(&conflict.message));
        }
        conflicts.extend(self.seizures(ingress, before));
        let found = self.in_its_place(ingress);
        let is_guest = found.iter().any(|problem| problem.reason == Reason::NotOwner);
        let standing = before.filter(|_| is_guest).map(|before| messages(self.in_its_place(before)));
        for mut problem in found {
            let is_standing = standing.as_ref().is_some_and(|standing| standing.contains(&problem.message));
            if problem.reason == Reason::Conflict || problem.reason == Reason::NotOwner && is_standing {
                problem = problem.because(Reason::NoEffect);
            }
            conflicts.push(problem);
        }
        Verdict::of(&conflicts)
    }

    /// Hosts of other namespaces which the Ingress did not have before, and which it would own only because
    /// of its age. They have to be refused here: an object has one creation time, and no field records when
    /// the object first named a host.
    fn seizures(&self, ingress: &Sourced<Ingress>, before: Option<&Arc<Sourced<Ingress>>>) -> Vec<Problem> {
        let before = before.filter(|before| is_ours(before, self.near, self.options));
        let known: HashSet<_> = before.into_iter().flat_map(|before| hosts_of(before)).collect();
        let new: BTreeSet<_> = hosts_of(ingress).filter(|host| !known.contains(host)).collect();
        let is_other = |other: &&Arc<Sourced<Ingress>>| {
            other.key() != ingress.key() && is_ours(other, self.near, self.options)
        };
        let others: Vec<_> = self.near.ingresses.iter().filter(is_other).collect();
        let seizure = |host: HostName| {
            let holders = others.iter().filter(|other| hosts_of(other).any(|one| one == host));
            let holders: Vec<_> = holders.map(|holder| &***holder).collect();
            let owner = holders[*by_age(holders.iter().copied()).first()? as usize];
            let with_it = by_age([owner, ingress].into_iter());
            let seizes = with_it[0] == 1 && owner.namespace() != ingress.namespace();
            let owner = owner.reference();
            let message = format!(
                "host {host} belongs to {owner}, which is of another namespace and has had it before"
            );
            seizes.then(|| Problem::of(Severity::Error, ingress, message).because(Reason::NotOwner))
        };
        new.into_iter().filter_map(seizure).collect()
    }

    /// Conflicts with hosts and paths of other Ingresses. The Ingress is judged as the youngest of all, so
    /// that its age does not win a host or path that it did not have before.
    fn conflicts(&self, ingress: &Sourced<Ingress>) -> Vec<Problem> {
        let problems = self.as_youngest(ingress);
        problems.into_iter().filter(|problem| problem.reason == Reason::Conflict).collect()
    }

    /// The problems of an Ingress that keeps its creation time.
    fn in_its_place(&self, ingress: &Arc<Sourced<Ingress>>) -> Vec<Problem> {
        let mut index = copy(self.near, |_| true);
        index.apply(&Object::Ingress(Arc::clone(ingress)));
        self.problems(&index, ingress)
    }

    /// The problems of an Ingress that is translated as the youngest of all.
    fn as_youngest(&self, ingress: &Sourced<Ingress>) -> Vec<Problem> {
        let mut ingress = ingress.clone();
        ingress.object.metadata = ingress.object.metadata.created_at(None);
        let key = ingress.key();
        let mut index =
            copy(self.near, |object| !matches!(object, Object::Ingress(other) if other.key() == key));
        let ingress = Arc::new(ingress);
        index.apply(&Object::Ingress(Arc::clone(&ingress)));
        self.problems(&index, &ingress)
    }

    fn problems(&self, index: &Index, ingress: &Sourced<Ingress>) -> Vec<Problem> {
        let begun = Instant::now();
        let translation = translate(index, self.options, &Resolved::new(), self.now);
        self.translating.update(|before| before + begun.elapsed());
        let reference = Some(ingress.reference());
        translation.problems.into_iter().filter(|problem| problem.object == reference).collect()
    }
}

fn messages(problems: Vec<Problem>) -> HashSet<String> {
    problems.into_iter().map(|problem| problem.message).collect()
}

fn copy(index: &Index, takes: impl Fn(&Object) -> bool) -> Index {
    let mut copy = Index::default();
    copy.namespaces.clone_from(&index.namespaces);
    for object in index.objects().filter(takes) {
        copy.apply(&object);
    }
    copy
}

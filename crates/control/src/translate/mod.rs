//! Objects to a model, in ordered passes.
//!
//! `configmap` sets what holds everywhere; `ingress` makes `claim`s of Ingresses about hosts; `hosts` merges the claims of each host,
//! and asks `clusters` for what is behind the backends, which takes the addresses from `endpoints`; `streams` reads which Services
//! have ports of their own. Another kind of object is another folder beside `ingress`: what comes after the claims knows no kinds.
//!
//! A [`Translator`] keeps what it made in `memo`s: the next translation makes only that anew which would come out otherwise, as
//! `inputs` and `changes` tell. That saves work and changes nothing: the same objects at the same time give the same translation,
//! but for the ids of clusters.
//!
//! Never in here: IO, clocks.

mod backend_settings;
mod certificates;
mod changes;
mod ciphers;
mod claim;
mod clusters;
pub mod configmap;
mod endpoints;
mod hosts;
pub mod ingress;
mod inputs;
mod judged;
mod memo;
mod streams;
mod table;
mod translator;
mod upstream_protocol;
mod value;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use model::Model;

use crate::index::Index;
use crate::objects::{Ingress, Sourced};
use crate::options::Options;
use crate::problem::Problem;
use crate::resolve::Resolved;
use crate::source::Skipped;

pub use claim::{HostCertificate, RouteOrigin};
pub use translator::Translator;

/// A whole new model, and what there is to say about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// What is to be served.
    pub model: Model,
    /// What is wrong or worth knowing, by place.
    pub problems: Vec<Problem>,
    /// Numbers of things that were passed over.
    pub skipped: Skipped,
    /// Who asked for each route: for each host of the model as many as it has routes.
    pub origins: Vec<Arc<[RouteOrigin]>>,
    /// The Ingresses that are ours, the oldest first.
    pub ingresses: Vec<Arc<Sourced<Ingress>>>,
    /// Names whose addresses the model depends on.
    pub names: BTreeSet<String>,
    /// The certificates of hosts.
    pub certificates: Vec<HostCertificate>,
    /// Second since 1970 from which the same objects translate to something else: a certificate begins or ends.
    pub valid_until: Option<i64>,
}

impl Translation {
    /// The problems that the translation before this one did not have: those to tell the operator of.
    pub fn new_problems<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a Problem> {
        let known: HashSet<_> = before.problems.iter().collect();
        self.problems.iter().filter(move |problem| !known.contains(problem))
    }
}

/// Translates all objects, as it is to be at a time.
pub fn translate(index: &Index, options: &Options, resolved: &Resolved, now: SystemTime) -> Translation {
    Translator::default().translate(index, options, resolved, now)
}

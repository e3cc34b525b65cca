//! Translates objects into a model, in ordered passes.
//!
//! `configmap` reads the settings of the whole proxy; `ingress` makes the `claim`s of Ingresses about hosts;
//! `hosts` merges the claims of each host, and gets the clusters of the backends from `clusters`, which gets
//! the addresses from `endpoints`; `streams` reads the TCP and UDP services. Another kind of object would be
//! another folder beside `ingress`: the passes after the claims do not know kinds.
//!
//! A [`Translator`] stores its results in `memo`s: the next translation makes only those again whose `inputs`
//! have changed, which `changes` finds. This saves work without a visible effect: the same objects at the
//! same time give the same translation, except for the ids of clusters.
//!
//! Never in here: IO, clocks.

mod acme;
mod backend_settings;
mod certificates;
mod changes;
mod characters;
mod checked;
mod ciphers;
mod claim;
mod clusters;
pub mod configmap;
mod endpoints;
pub mod gateway;
mod handful;
mod header;
mod host_piece;
mod hosts;
pub mod ingress;
mod inputs;
mod judged;
mod memo;
mod origin;
mod orphans;
mod ownership;
mod parts;
pub mod policy;
mod replicas;
mod sign_in;
mod snippet;
mod spelling;
mod streams;
mod table;
mod translator;
mod upstream_protocol;
pub(crate) mod value;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use model::{List, Model};

use crate::acme::Wanted as WantedCertificates;
use crate::geoip::Wanted;
use crate::index::Index;
use crate::names::NsName;
use crate::objects::{ConfigMap, Ingress, Sourced};
use crate::options::Options;
use crate::outcome::Outcome;
use crate::problem::Problem;
use crate::resolve::Resolved;
use crate::source::Skipped;
use gateway::report::GatewayReport;

pub use claim::{HostCertificate, RouteSetting};
pub use gateway::rules::FIELDS;
pub use origin::RouteOrigin;
pub use translator::Translator;

/// A whole new model, and the problems found on the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translation {
    /// The model for the proxy.
    pub model: Model,
    /// Problems and information, sorted by place.
    pub problems: Vec<Problem>,
    /// Numbers of objects that were skipped.
    pub skipped: Skipped,
    /// The origins of the routes: for each host of the model one entry per route, in order.
    pub origins: Arc<List<Arc<[RouteOrigin]>>>,
    /// The served Ingresses, the oldest first.
    pub ingresses: Arc<List<Arc<Sourced<Ingress>>>>,
    /// The `ConfigMap` with the settings; none if it does not exist.
    pub configmap: Option<Arc<Sourced<ConfigMap>>>,
    /// The external names on whose addresses the model depends.
    pub names: BTreeSet<String>,
    /// The missing Services that Ingresses name.
    pub missing_services: BTreeSet<NsName>,
    /// The uids of the Services whose endpoints have active health checks, for Events.
    pub checked_services: BTreeMap<NsName, String>,
    /// The certificates of hosts, for metrics.
    pub certificates: Arc<[HostCertificate]>,
    /// The results for the status of the Gateway API's objects.
    pub gateway: GatewayReport,
    /// The certificates to obtain.
    pub acme: WantedCertificates,
    /// The databases of addresses that the settings ask for. Their driver puts them into the model.
    pub geoip: Wanted,
    /// The second since 1970 from which the same objects have another translation, because a certificate
    /// becomes valid or expires; none for never.
    pub valid_until: Option<i64>,
}

impl Translation {
    /// The problems that the previous translation did not have, for the log.
    pub fn new_problems<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a Problem> {
        let known: HashSet<_> = before.problems.iter().collect();
        self.problems.iter().filter(move |problem| !known.contains(problem))
    }
}

/// The effect of each annotation of these Ingresses that has our prefix and a name that ingress-nginx knows.
///
/// `before` are the options with the defaults of the former ingress-nginx.
pub(crate) fn judge<'i>(
    ingresses: impl Iterator<Item = &'i Arc<Sourced<Ingress>>>,
    index: &Index,
    options: &Options,
    before: &Options,
) -> Vec<(&'static str, Outcome)> {
    let [base, before] = [options, before].map(|options| configmap::defaults(index, options));
    ingresses.flat_map(|ingress| ingress::annotations::judge(ingress, options, &base, &before)).collect()
}

/// Translates all objects, for the given time.
pub fn translate(index: &Index, options: &Options, resolved: &Resolved, now: SystemTime) -> Translation {
    Translator::default().translate(index, options, resolved, now)
}

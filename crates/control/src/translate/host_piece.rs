//! The result of a translation for one host.
//!
//! There may be 100,000 of them: what most hosts do not have takes one pointer.
//!
//! Never in here: how a host is made.

use std::sync::Arc;

use model::Host;
use smallvec::SmallVec;

use super::claim::HostCertificate;
use super::handful::Handful;
use super::hosts::{self, Merged, WildcardTls};
use super::origin::RouteOrigin;
use super::ownership::Terms;
use crate::problem::Problem;

/// The numbers of the Ingresses with a claim about a host, the oldest first, while they are gathered.
pub(super) type Group = SmallVec<[u32; 4]>;

/// The result for one host.
pub(super) struct HostPiece {
    /// The numbers of the Ingresses with a claim about the host, the oldest first, followed by those of
    /// canaries.
    pub(super) claimants: Handful,
    /// An Ingress that is no canary has a claim about the host, or the default backend receives its requests.
    pub(super) is_served: bool,
    pub(super) host: Arc<Host>,
    pub(super) origins: Arc<[RouteOrigin]>,
    /// None for most hosts, therefore on the heap.
    rest: Option<Box<Rest>>,
}

/// The parts of a result that most hosts do not have.
#[derive(Default)]
struct Rest {
    /// The TLS of the wildcard that matches the name of the host.
    wildcard: Option<WildcardTls>,
    /// Another host that redirects to this one, unless Ingresses have a rule for it.
    www: Option<(Arc<Host>, Arc<[RouteOrigin]>)>,
    certificates: Box<[HostCertificate]>,
    problems: Box<[Problem]>,
    /// Settings of all routes of the host, if any exist.
    terms: Option<Arc<Terms>>,
    /// The Ingress that declares the aliases of the host.
    aliases_by: Option<u32>,
    /// Forebay obtains the certificate of the host.
    is_obtained: bool,
}

impl HostPiece {
    /// Makes the result of a host. Unchanged parts of the old host stay the same objects.
    pub(super) fn new(
        claimants: &[u32],
        is_served: bool,
        wildcard: Option<WildcardTls>,
        merged: Merged,
        aliases_by: Option<u32>,
        old: Option<&Self>,
    ) -> Self {
        let Merged { host, www, origins, certificates, problems, terms, aliases_by: _, is_obtained } = merged;
        let known = old.filter(|old| *old.origins == *origins);
        let www = www.map(|(www, origin)| {
            let before = old.and_then(|old| Some(&old.www()?.0));
            (hosts::take_over(www, before), Arc::from([origin]))
        });
        let rest = Rest {
            wildcard,
            www,
            certificates: certificates.into(),
            problems: problems.into(),
            terms,
            aliases_by,
            is_obtained,
        };
        Self {
            claimants: claimants.into(),
            is_served,
            host: hosts::take_over(host, old.map(|old| &old.host)),
            origins: known.map_or_else(|| origins.into(), |old| Arc::clone(&old.origins)),
            rest: (!rest.is_empty()).then(|| Box::new(rest)),
        }
    }

    pub(super) fn wildcard(&self) -> Option<&WildcardTls> {
        self.rest.as_ref()?.wildcard.as_ref()
    }

    pub(super) fn www(&self) -> Option<&(Arc<Host>, Arc<[RouteOrigin]>)> {
        self.rest.as_ref()?.www.as_ref()
    }

    pub(super) fn terms(&self) -> Option<&Arc<Terms>> {
        self.rest.as_ref()?.terms.as_ref()
    }

    pub(super) fn aliases_by(&self) -> Option<u32> {
        self.rest.as_ref()?.aliases_by
    }

    pub(super) fn certificates(&self) -> &[HostCertificate] {
        self.rest.as_ref().map_or(&[], |rest| &rest.certificates)
    }

    pub(super) fn problems(&self) -> &[Problem] {
        self.rest.as_ref().map_or(&[], |rest| &rest.problems)
    }

    /// Whether the host says nothing about other names: neither aliases nor a redirect from another name.
    pub(super) fn stands_alone(&self) -> bool {
        self.rest.as_ref().is_none_or(|rest| rest.www.is_none() && rest.aliases_by.is_none())
    }

    /// Whether only canaries have a claim about the host.
    pub(super) fn is_of_canaries(&self) -> bool {
        !self.is_served && !self.claimants.is_empty()
    }

    pub(super) fn is_obtained(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.is_obtained)
    }
}

impl Rest {
    fn is_empty(&self) -> bool {
        let Self { wildcard, www, certificates, problems, terms, aliases_by, is_obtained } = self;
        let has_lists = !certificates.is_empty() || !problems.is_empty();
        let has_others = wildcard.is_some() || www.is_some() || terms.is_some() || aliases_by.is_some();
        !has_lists && !has_others && !is_obtained
    }
}

//! Claims of guests: objects at a host that an object of another namespace owns.
//!
//! The oldest object with a host owns it, together with its namespace. Only the owner decides the settings of
//! the whole host. Settings of a guest for the whole host are left out and reported. If leaving one out would
//! give access that the guest wants to restrict, the guest's own routes are closed. ingress-nginx uses the
//! first Ingress that configures a setting, whatever its namespace.
//!
//! A guest adds paths that have no meaning for earlier objects: no other spelling of their paths, and no
//! regular expression, which could match any path and would turn the owner's paths into expressions.

use std::collections::HashMap;

use model::{PathMatch, VerifyClient};

use super::{Claim, ClaimEffect, DraftRoute, Merge, locations};
use crate::names::ObjectRef;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::spelling;

/// The paths of a host by their meaning ([`spelling`]), each with the number of its claim.
pub(super) struct Held {
    by_meaning: HashMap<String, usize>,
    /// The objects that claim the host belong to several namespaces.
    has_guests: bool,
}

impl Held {
    pub(super) fn of(claims: &[Claim]) -> Self {
        let namespace = |claim: &Claim| claim.place.object.namespace.clone();
        let has_guests = claims.first().is_some_and(|first| {
            let owner = namespace(first);
            claims.iter().any(|claim| namespace(claim) != owner)
        });
        Self { by_meaning: HashMap::new(), has_guests }
    }
}

impl Merge<'_, '_, '_> {
    /// The owner of the host, if the claim belongs to another namespace.
    pub(super) fn owner_before(&self, claim: &Claim) -> Option<ObjectRef> {
        self.owner.clone().filter(|owner| owner.namespace != claim.place.object.namespace)
    }

    /// Reserves `/` for the owner, if its object names a backend for undeclared paths.
    pub(super) fn hold_root(&mut self, number: usize, rest: &DraftRoute) {
        if self.held.has_guests && rest.backend.is_some() {
            self.held.by_meaning.entry("/".to_owned()).or_insert(number);
        }
    }

    /// Reserves the path of a route. Returns the path of a guest's route, or the reason for leaving the route
    /// out.
    pub(super) fn hold(
        &mut self,
        route: &DraftRoute,
        askers: &[ObjectRef],
        number: usize,
    ) -> Result<Option<PathMatch>, Box<Problem>> {
        if !self.held.has_guests {
            return Ok(None);
        }
        let namespace = &askers[number].namespace;
        let Some(owner) = self.owner.clone().filter(|owner| owner.namespace != *namespace) else {
            self.held.by_meaning.entry(spelling::meaning(route.path.path())).or_insert(number);
            return Ok(None);
        };
        let (text, name) = (route.path.path(), self.name);
        let left_out = |reason, what: String| {
            let message = format!("path {text} of host {name}: {what}; it is ignored");
            Err(Box::new(Problem::in_place(Severity::Warning, &route.place, message).because(reason)))
        };
        let belongs = format!("the host belongs to {owner}, which is older and of another namespace");
        let Some(path) = locations::of_guest(route) else {
            return left_out(
                Reason::NotOwner,
                format!("{belongs}, and a regular expression could take its paths"),
            );
        };
        let meaning = spelling::meaning(path.path());
        let holder = self.held.by_meaning.get(&meaning).map(|&holder| &askers[holder]);
        if let Some(first) = holder.filter(|first| first.namespace != *namespace) {
            return left_out(
                Reason::Conflict,
                format!("{belongs}, and {first} has the path in another spelling"),
            );
        }
        let owners = self.drafts.iter().filter(|declared| declared.of_guest.is_none());
        if locations::are_taken(owners, path.path()) {
            return left_out(
                Reason::NotOwner,
                format!("{belongs}, and a regular expression of the owner's takes it"),
            );
        }
        self.held.by_meaning.entry(meaning).or_insert(number);
        Ok(Some(path))
    }

    /// Handles the settings of a guest for the whole host.
    pub(super) fn declare_guest(&mut self, number: usize, claim: &Claim, owner: &ObjectRef) {
        let (words, tls) = (claim.words, &claim.tls);
        self.tell_of_certificate(claim, owner);
        let closed = self.client_auth_of_guest(claim, owner);
        if !claim.denials.is_empty() {
            let what = format!("{} of this one closes its own locations there, and no others", words.denials);
            self.tell_guest(claim, owner, Reason::NoEffect, &what);
        }
        if tls.ciphers.is_some() || tls.prefer_server_ciphers.is_some() {
            let what = format!("{} of this one have no effect there", words.ciphers);
            self.tell_guest(claim, owner, Reason::NoEffect, &what);
        }
        if tls.early_data.is_some() {
            self.tell_guest(claim, owner, Reason::NoEffect, "early-data of this one has no effect there");
        }
        if tls.passthrough.is_some() {
            let what = format!("{} of this one has no effect there", words.passthrough);
            self.tell_guest(claim, owner, Reason::NotOwner, &what);
        }
        if !claim.aliases.is_empty() {
            let what = format!("{} of this one has no effect there", words.aliases);
            self.tell_guest(claim, owner, Reason::NotOwner, &what);
        }
        if claim.app_root.is_some() {
            let what = format!("{} of this one has no effect there", words.app_root);
            self.tell_guest(claim, owner, Reason::NoEffect, &what);
        }
        if claim.www_redirect.is_some() {
            let what = format!("{} of this one has no effect there", words.www_redirect);
            self.tell_guest(claim, owner, Reason::NoEffect, &what);
        }
        if claim.is_catch_all {
            let what = "the default backend of this one is ignored";
            self.tell_guest(claim, owner, Reason::NotOwner, what);
        }
        let (has_tls, asks_clients) = (tls.certificate.is_some(), tls.client_auth.is_some());
        let mut denials = claim.denials.clone();
        if claim.script.is_some() {
            let what = format!("{} of this one closes its own locations there, and no others", words.script);
            self.tell_guest(claim, owner, Reason::NotOwner, &what);
            denials.push(format!("{} is of another namespace than the host", words.script));
        }
        self.standings[number] = ClaimEffect { has_tls, closed, asks_clients, denials };
    }

    /// Reports that the host uses another certificate than the guest names.
    fn tell_of_certificate(&mut self, claim: &Claim, owner: &ObjectRef) {
        let Some(certificate) = &claim.tls.certificate else { return };
        let shown = self.tls.certificate.as_ref().map(|shown| &shown.chain);
        let is_shown = certificate.found.as_ref().is_some_and(|found| shown == Some(&found.chain));
        if let Some(secret) = certificate.secret.as_ref().filter(|_| !is_shown) {
            let what = format!("the certificate of TLS Secret {secret:?} is not shown there");
            self.tell_guest(claim, owner, Reason::NoEffect, &what);
        }
    }

    /// The reason for closing the guest's routes; none if they stay open.
    fn client_auth_of_guest(&mut self, claim: &Claim, owner: &ObjectRef) -> Option<String> {
        let asked = claim.tls.client_auth.as_ref();
        let asked = asked.filter(|&asked| self.terms.client_auth.as_ref() != Some(asked))?;
        let annotations = claim.words.client_auth;
        let (reason, closed) = match asked {
            Ok(policy) if policy.auth.verify == VerifyClient::Off => {
                let what = format!("{annotations} of this one have no effect there");
                self.tell_guest(claim, owner, Reason::NoEffect, &what);
                return None;
            }
            Ok(_) => (
                Reason::NotOwner,
                format!("{owner} says what is asked of clients, and that is something else"),
            ),
            Err(why) => (Reason::Secret, why.clone()),
        };
        let what = format!("{annotations} of this one cannot be enforced: its locations there answer 403");
        self.tell_guest(claim, owner, reason, &what);
        Some(closed)
    }

    fn tell_guest(&mut self, claim: &Claim, owner: &ObjectRef, reason: Reason, what: &str) {
        let name = self.name;
        let message =
            format!("host {name} belongs to {owner}, which is older and of another namespace; {what}");
        let problem = Problem::in_place(Severity::Warning, &claim.place, message);
        self.problems.push(problem.because(reason));
    }
}

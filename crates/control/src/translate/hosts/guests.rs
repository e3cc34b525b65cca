//! Ingresses at a host that is another namespace's.
//!
//! The oldest Ingress with a host owns it, and its namespace with it. What holds for the host as a whole is up to the owner; what a
//! guest asks for beyond its own paths is left out and told. Where leaving it out would open what the guest wants guarded, the
//! guest's own locations close. ingress-nginx takes the first Ingress that says something, whoever it is.

use model::VerifyClient;

use super::{Annotated, Builder, rules_for};
use crate::names::ObjectRef;
use crate::problem::{Problem, Reason, Severity};
use crate::translate::policy::Standing;

impl<'b> Builder<'b, '_, '_> {
    /// The owner of the host, where an Ingress is of another namespace.
    pub(super) fn owner_before(&self, annotated: &Annotated<'_>) -> Option<ObjectRef> {
        let owner = self.owner?.ingress;
        (owner.namespace() != annotated.ingress.namespace()).then(|| owner.reference())
    }

    /// Takes note of what a guest says about the host as a whole.
    pub(super) fn declare_guest(&mut self, annotated: &'b Annotated<'b>, owner: &ObjectRef) {
        let (ingress, policy) = (annotated.ingress, &annotated.policy);
        let has_tls = self.certificate_of_guest(annotated, owner);
        let closed = self.demand_of_guest(annotated, owner);
        if !policy.host_denials.is_empty() {
            let what = "server-snippet of this one closes its own locations there, and no others";
            self.tell_guest(annotated, owner, Reason::NoEffect, what);
        }
        if policy.ciphers.is_some() || policy.prefer_server_ciphers.is_some() {
            let what = "ssl-ciphers and ssl-prefer-server-ciphers of this one have no effect there";
            self.tell_guest(annotated, owner, Reason::NoEffect, what);
        }
        if policy.passthrough {
            let what = "ssl-passthrough of this one has no effect there";
            self.tell_guest(annotated, owner, Reason::NotOwner, what);
        }
        if rules_for(self.name, ingress).next().is_none() {
            let what = "the default backend of this one is left out";
            self.tell_guest(annotated, owner, Reason::NotOwner, what);
        }
        let demands = annotated.demand.is_some();
        self.standings.insert(ingress.reference(), Standing { has_tls, closed, demands });
    }

    /// Tells that another certificate is shown than the guest names. Tells whether the guest is for TLS at all.
    fn certificate_of_guest(&mut self, annotated: &Annotated<'_>, owner: &ObjectRef) -> bool {
        let Some((secret, pair)) = self.certificates.named(annotated.ingress, self.name) else {
            return false;
        };
        let shown = self.tls.certificate.as_ref().map(|shown| &shown.chain);
        let is_shown = pair.is_some_and(|pair| shown == Some(&pair.certificate.chain));
        if let Some(secret) = secret.filter(|_| !is_shown) {
            let what = format!("the certificate of TLS Secret {:?} is not shown there", secret.value);
            self.tell_guest(annotated, owner, Reason::NoEffect, &what);
        }
        true
    }

    /// Why the guest's locations have to be closed, if they have.
    fn demand_of_guest(&mut self, annotated: &Annotated<'_>, owner: &ObjectRef) -> Option<String> {
        let demand =
            annotated.demand.as_ref().filter(|&demand| self.policy.demand.as_ref() != Some(demand))?;
        let (reason, closed) = match demand {
            Ok(demand) if demand.auth.verify == VerifyClient::Off => {
                let what = "auth-tls-* of this one have no effect there";
                self.tell_guest(annotated, owner, Reason::NoEffect, what);
                return None;
            }
            Ok(_) => (
                Reason::NotOwner,
                format!("{owner} says what is asked of clients, and that is something else"),
            ),
            Err(why) => (Reason::Secret, why.clone()),
        };
        let what = "auth-tls-* of this one cannot be enforced: its locations there answer 403";
        self.tell_guest(annotated, owner, reason, what);
        Some(closed)
    }

    fn tell_guest(&mut self, annotated: &Annotated<'_>, owner: &ObjectRef, reason: Reason, what: &str) {
        let name = self.name;
        let message =
            format!("host {name} belongs to {owner}, which is older and of another namespace; {what}");
        let problem = Problem::of(Severity::Warning, annotated.ingress, message);
        self.problems.push(problem.because(reason));
    }
}

//! Settings that hold for all routes of a host.

use std::sync::Arc;

use model::template::Template;
use model::{
    Access, AddressRule, ClientCertificate, HostName, HostScript, Networks, PathMatch, RequestFilter,
    TlsRedirect, UpstreamTls, VerifyClient,
};

use super::ClaimEffect;
use crate::problem::SourceLocation;
use crate::translate::claim::{AccessDraft, ClientAuthPolicy, DraftRoute, TlsRedirectDraft};
use crate::translate::ownership::Terms;
use crate::translate::snippet::OfHost;
use crate::translate::value::Parsed;

/// Settings that hold for all routes of a host.
#[derive(Default)]
pub(super) struct HostTerms {
    /// The host uses TLS, whether its certificate is usable or not.
    pub(super) has_tls: bool,
    /// The names in its certificate.
    pub(super) certificate_names: Vec<HostName>,
    /// The names in its certificate and the host's own name; none for a host without aliases.
    pub(super) covered: Option<Arc<[HostName]>>,
    /// A wildcard host that matches the name uses TLS.
    pub(super) wildcard_has_tls: bool,
    /// The target of the redirect for requests of `/`.
    pub(super) app_root: Option<Template>,
    /// The reasons for closing all routes of the host.
    pub(super) denials: Vec<String>,
    /// The verification of client certificates, or the reason for closing the host.
    pub(super) client_auth: Option<Parsed<ClientAuthPolicy>>,
    /// The contents of the snippet for the host.
    pub(super) script: Option<Arc<OfHost>>,
    /// TLS towards endpoints, for routes that do not configure it themselves.
    pub(super) upstream_tls: Option<Arc<UpstreamTls>>,
}

impl HostTerms {
    pub(super) fn redirect(&self, draft: &TlsRedirectDraft, standing: &ClaimEffect) -> Option<RequestFilter> {
        let TlsRedirectDraft { always, redirect } = draft;
        let has_tls = self.has_tls || standing.has_tls || self.wildcard_has_tls;
        // Only a handshake with Forebay itself contains a client certificate, so the redirect has to ignore
        // headers of a proxy in front of it.
        let believes_hops = !self.requires_certificate();
        let only_for = self.covered.clone().filter(|_| !always);
        let redirect = TlsRedirect { believes_hops, only_for, ..redirect.clone() };
        (*always || has_tls).then_some(RequestFilter::TlsRedirect(redirect))
    }

    /// The access rules of a route. The cluster of its auth service is added later.
    pub(super) fn access(&self, draft: &DraftRoute, standing: &ClaimEffect) -> Access {
        let unavailable = unavailable(draft.denials.iter().chain(&self.denials).chain(&standing.denials));
        let (forbidden, client_certificate) = match (&standing.closed, &self.client_auth) {
            (Some(why), _) | (None, Some(Err(why))) => (Some(why.clone()), None),
            (None, Some(Ok(policy))) => {
                let passes_in_clear = !standing.asks_clients && draft.passes_in_clear;
                (None, Some(ClientCertificate { passes_in_clear, ..policy.filter.clone() }))
            }
            (None, None) => (None, None),
        };
        let AccessDraft {
            firewall,
            limits,
            quota,
            networks,
            places,
            api_keys,
            jwt,
            basic,
            oidc,
            satisfy,
            ..
        } = draft.access.clone();
        let networks = Networks::with_places(networks.or_else(|| self.networks(draft)), places);
        Access {
            forbidden,
            client_certificate,
            unavailable,
            firewall,
            limits,
            quota,
            networks,
            api_keys,
            jwt,
            basic,
            oidc_endpoints: None,
            hides_sessions: false,
            oidc,
            external: None,
            ext_authz: Vec::new(),
            satisfy,
            processor: None,
        }
    }

    /// Settings that hold also for routes of other kinds of objects, if any exist.
    pub(super) fn of_all_routes(&self) -> Option<Arc<Terms>> {
        let bare = DraftRoute::new(PathMatch::root(), None, SourceLocation::of_proxy());
        let terms = Terms {
            access: self.access(&bare, &ClaimEffect::default()),
            script: self.host_script(&bare),
            app_root: self.app_root.clone(),
        };
        (terms != Terms::default()).then(|| Arc::new(terms))
    }

    /// The networks of admitted clients, for a place without rules of its own.
    fn networks(&self, draft: &DraftRoute) -> Option<Networks> {
        let of_host = self.script.iter().chain(&draft.script.global).flat_map(|script| &script.rules);
        let rules: Arc<[AddressRule]> = of_host.copied().collect();
        if rules.is_empty() {
            let denied = draft.access.blocked.clone()?;
            return Some(Networks { denied: Some(denied), ..Networks::default() });
        }
        Some(Networks { rules, ..Networks::default() })
    }

    /// The script for all requests of the host, whatever their route; none without any step.
    pub(super) fn host_script(&self, draft: &DraftRoute) -> Option<Arc<HostScript>> {
        let mut script = HostScript::default();
        // ingress-nginx writes the snippet of an Ingress, then its locations with their server directives,
        // then the snippet of the ConfigMap.
        script.steps_before_app_root = self.script.as_ref().map_or(0, |one| one.script.block.steps.len());
        for OfHost { script: one, .. } in self.script.iter().chain(&draft.script.global).map(|one| &**one) {
            script.block.steps.extend_from_slice(&one.block.steps);
            script.block.headers.extend(&one.block.headers);
            script.places.extend_from_slice(&one.places);
        }
        for place in &mut script.places {
            place.networks = place.networks.take().or_else(|| self.networks(draft));
        }
        (script != HostScript::default()).then(|| Arc::new(script))
    }

    /// Whether clients need a certificate.
    fn requires_certificate(&self) -> bool {
        let policy = self.client_auth.as_ref().and_then(|policy| policy.as_ref().ok());
        policy.is_some_and(|policy| policy.auth.verify == VerifyClient::On)
    }
}

fn unavailable<'a>(denials: impl Iterator<Item = &'a String>) -> Option<String> {
    let mut reasons: Vec<&str> = Vec::new();
    for denial in denials {
        if !reasons.contains(&denial.as_str()) {
            reasons.push(denial);
        }
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

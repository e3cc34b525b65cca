//! What holds for all routes of a host.

use std::sync::Arc;

use model::template::Template;
use model::{
    Access, AddressRule, ClientCertificate, HostName, HostScript, Networks, PathMatch, RequestFilter,
    TlsRedirect, UpstreamTls, VerifyClient,
};

use super::Standing;
use crate::problem::Place;
use crate::translate::claim::{AccessDraft, ClientAuthPolicy, DraftRoute, TlsRedirectDraft};
use crate::translate::ownership::Terms;
use crate::translate::snippet::OfHost;
use crate::translate::value::Parsed;

/// Settings that hold for all routes of a host.
#[derive(Default)]
pub(super) struct HostTerms {
    /// The host is to be served over TLS, whether its certificate can be used or not.
    pub(super) has_tls: bool,
    /// The names that its certificate is for.
    pub(super) certificate_names: Vec<HostName>,
    /// The same and the host's own; none where it has no further names.
    pub(super) covered: Option<Arc<[HostName]>>,
    /// A wildcard host that its name belongs to is served over TLS.
    pub(super) wildcard_has_tls: bool,
    /// Where clients are sent that ask for `/`.
    pub(super) app_root: Option<Template>,
    /// Why all its routes are closed.
    pub(super) denials: Vec<String>,
    /// The verification of client certificates, or why the host is closed.
    pub(super) client_auth: Option<Parsed<ClientAuthPolicy>>,
    /// What a snippet says of the host.
    pub(super) script: Option<Arc<OfHost>>,
    /// TLS towards endpoints, for routes that do not configure it themselves.
    pub(super) upstream_tls: Option<Arc<UpstreamTls>>,
}

impl HostTerms {
    pub(super) fn redirect(&self, draft: &TlsRedirectDraft, standing: &Standing) -> Option<RequestFilter> {
        let TlsRedirectDraft { always, redirect } = draft;
        let has_tls = self.has_tls || standing.has_tls || self.wildcard_has_tls;
        // A client certificate is shown only in a handshake with Forebay, so that a redirect has to ignore what a proxy in front
        // says of TLS.
        let believes_hops = !self.requires_certificate();
        let only_for = self.covered.clone().filter(|_| !always);
        let redirect = TlsRedirect { believes_hops, only_for, ..redirect.clone() };
        (*always || has_tls).then_some(RequestFilter::TlsRedirect(redirect))
    }

    /// Who may use a route. Its auth service is a cluster, which is still to be found.
    pub(super) fn access(&self, draft: &DraftRoute, standing: &Standing) -> Access {
        let unavailable = unavailable(draft.denials.iter().chain(&self.denials).chain(&standing.denials));
        let (forbidden, client_certificate) = match (&standing.closed, &self.client_auth) {
            (Some(why), _) | (None, Some(Err(why))) => (Some(why.clone()), None),
            (None, Some(Ok(policy))) => {
                let passes_in_clear = !standing.asks_clients && draft.passes_in_clear;
                (None, Some(ClientCertificate { passes_in_clear, ..policy.filter.clone() }))
            }
            (None, None) => (None, None),
        };
        let AccessDraft { limits, quota, networks, basic, satisfy, .. } = draft.access.clone();
        let networks = networks.or_else(|| self.networks(draft));
        Access {
            forbidden,
            client_certificate,
            unavailable,
            limits,
            quota,
            networks,
            basic,
            external: None,
            satisfy,
        }
    }

    /// Settings of routes of other kinds of objects too, if there are any.
    pub(super) fn of_all_routes(&self) -> Option<Arc<Terms>> {
        let bare = DraftRoute::new(PathMatch::root(), None, Place::of_proxy());
        let terms = Terms {
            access: self.access(&bare, &Standing::default()),
            script: self.host_script(&bare),
            app_root: self.app_root.clone(),
        };
        (terms != Terms::default()).then(|| Arc::new(terms))
    }

    /// Which clients are let in where nothing is said of them for the place itself.
    fn networks(&self, draft: &DraftRoute) -> Option<Networks> {
        let of_host = self.script.iter().chain(&draft.script.global).flat_map(|script| &script.rules);
        let rules: Arc<[AddressRule]> = of_host.copied().collect();
        if rules.is_empty() {
            let denied = draft.access.blocked.clone()?;
            return Some(Networks { denied: Some(denied), ..Networks::default() });
        }
        Some(Networks { rules, ..Networks::default() })
    }

    /// What is done with all requests to the host, whichever route they are for; none if nothing is.
    pub(super) fn host_script(&self, draft: &DraftRoute) -> Option<Arc<HostScript>> {
        let mut script = HostScript::default();
        // ingress-nginx writes the snippet of an Ingress, then its locations with what they ask of the server, then that of the ConfigMap.
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

    /// Whether clients have to show a certificate.
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

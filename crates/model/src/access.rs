use std::sync::Arc;

use serde::Serialize;

use crate::{
    ApiKeys, BasicAuth, ClientLimits, ExtAuthz, ExternalAuth, Firewall, Jwt, Networks, Oidc, Pattern,
    Processor, RequestQuota, VerifyClient,
};

/// Access control of a route. Each field can refuse a request. The fields are evaluated in their order here:
/// those that guard the host or close the route before the [`RequestFilters`](crate::RequestFilters), the
/// others once it is known that the request can be served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Access {
    /// Refuses every request with 403, because a guard of the whole host cannot be enforced. The text says
    /// what is wrong, for the log and the `/configuration` page; the client does not see it.
    pub forbidden: Option<String>,
    /// Only clients that have shown a good certificate.
    pub client_certificate: Option<ClientCertificate>,
    /// Refuses every request with 503, because a guard of this route cannot be enforced. The text says what
    /// is wrong, as with [`forbidden`](Self::forbidden).
    pub unavailable: Option<String>,
    /// A web application firewall.
    pub firewall: Option<Arc<Firewall>>,
    /// Rate limits for each client. Requests that a later check refuses are counted too.
    pub limits: Option<ClientLimits>,
    /// Quotas in windows of time, shared by the clients that have a value in common.
    pub quota: Option<RequestQuota>,
    /// Only clients with certain addresses.
    pub networks: Option<Networks>,
    /// Only clients that have a key.
    pub api_keys: Option<ApiKeys>,
    /// Only clients that have a token.
    pub jwt: Option<Arc<Jwt>>,
    /// Only clients that know a password.
    pub basic: Option<BasicAuth>,
    /// Endpoints of sign-ins: the route answers nothing else.
    pub oidc_endpoints: Option<Arc<[Arc<Oidc>]>>,
    /// The endpoint gets no cookie of a session: others of the host's routes have a sign-in.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hides_sessions: bool,
    /// Only clients that have signed in at a provider.
    pub oidc: Option<Arc<Oidc>>,
    /// Only clients that another service lets in.
    pub external: Option<ExternalAuth>,
    /// Only clients that these services let in, which are asked one after the other.
    pub ext_authz: Vec<ExtAuthz>,
    /// Whether each of `networks`, `api_keys`, `jwt`, `basic`, `oidc`, `external` and `ext_authz` has to let
    /// a client in, or one of them suffices.
    pub satisfy: Satisfy,
    /// Requests that all others let pass, and their responses, go through an external processor.
    pub processor: Option<Processor>,
}

impl Access {
    /// The networks, if nothing else is checked once it is known that the request can be served.
    pub fn networks_alone(&self) -> Option<&Networks> {
        let shows_something = self.jwt.is_some() || self.oidc.is_some() || self.hides_sessions;
        self.networks.as_ref().filter(|_| !shows_something && !self.has_dearer_checks())
    }

    /// Whether tokens and sessions are all that is checked once it is known that the request can be served.
    pub fn has_credentials_alone(&self) -> bool {
        self.networks.is_none() && !self.has_dearer_checks()
    }

    /// Whether more is checked once it is known that the request can be served than networks, tokens and
    /// sessions.
    fn has_dearer_checks(&self) -> bool {
        let Self {
            forbidden: _,
            client_certificate: _,
            unavailable: _,
            firewall,
            limits,
            quota,
            networks: _,
            api_keys,
            jwt: _,
            basic,
            oidc_endpoints,
            hides_sessions: _,
            oidc: _,
            external,
            ext_authz,
            satisfy: _,
            processor,
        } = self;
        let limits_or_inspects = firewall.is_some() || limits.is_some() || quota.is_some();
        let identifies = api_keys.is_some() || basic.is_some() || oidc_endpoints.is_some();
        let asks_services = external.is_some() || !ext_authz.is_empty() || processor.is_some();
        limits_or_inspects || identifies || asks_services
    }
}

/// How several checks of a client are combined (nginx: `satisfy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Satisfy {
    /// Each has to let it in.
    #[default]
    All,
    /// One of them suffices: its address or its credentials.
    Any,
}

/// Rules for clients by their TLS certificates (ingress-nginx: `auth-tls-*`). A missing or bad certificate is
/// answered with 400, as nginx does; [`HostTls`](crate::HostTls) says which certificates are requested and
/// which authorities are trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientCertificate {
    /// The certificate that a client has to present.
    pub verify: VerifyClient,
    /// Pattern for the subject's name (`CN=...`); a certificate that does not match is answered with 403.
    pub match_subject: Option<Pattern>,
    /// Where to send clients instead of the 400: an absolute URL.
    pub error_page: Option<String>,
    /// Pass the certificate on to the endpoint, in `ssl-client-cert`.
    pub pass_certificate: bool,
    /// Serve requests in clear although a certificate is required: a certificate authority fetches its
    /// challenge (ACME HTTP-01) in clear, and the route with the answer requires no certificate itself.
    pub passes_in_clear: bool,
}

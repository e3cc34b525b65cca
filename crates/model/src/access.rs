use crate::{BasicAuth, ClientLimits, ExternalAuth, Networks, Pattern, RequestQuota, VerifyClient};

/// Who may use a route. Each field can refuse a request, and they are asked in the order in which they stand here: what guards the host
/// or closes the route before the [`RequestFilters`](crate::RequestFilters), the others once it is known that the request can be served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Nobody may, since something that guards the whole host cannot be enforced: the answer is 403. Says what is wrong, for the log
    /// and the `/configuration` page; the client is not told.
    pub forbidden: Option<String>,
    /// Only clients that have shown a good certificate.
    pub client_certificate: Option<ClientCertificate>,
    /// Nobody may, since something that guards this route cannot be enforced: the answer is 503. Says what is wrong, as
    /// [`forbidden`](Self::forbidden) does.
    pub unavailable: Option<String>,
    /// Only so many requests of one client. Counts those that are refused by what comes after it.
    pub limits: Option<ClientLimits>,
    /// Only so many requests in windows of time, of those who have a value in common.
    pub quota: Option<RequestQuota>,
    /// Only clients with certain addresses.
    pub networks: Option<Networks>,
    /// Only clients that know a password.
    pub basic: Option<BasicAuth>,
    /// Only clients that another service lets in.
    pub external: Option<ExternalAuth>,
    /// Whether each of `networks`, `basic` and `external` has to let a client in, or one of them suffices.
    pub satisfy: Satisfy,
}

/// How several checks of a client are combined (nginx: `satisfy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Satisfy {
    /// Each has to let it in.
    #[default]
    All,
    /// One of them suffices: its address or its credentials.
    Any,
}

/// What becomes of clients by the certificate that they have shown (ingress-nginx: `auth-tls-*`). One that is missing or bad
/// is answered with 400, as nginx does; which are asked for, and who is believed, says [`HostTls`](crate::HostTls).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// What has to be shown.
    pub verify: VerifyClient,
    /// What the subject's name has to match (`CN=...`); else the answer is 403.
    pub match_subject: Option<Pattern>,
    /// Where to send clients instead of the 400: an absolute URL.
    pub error_page: Option<String>,
    /// Pass the certificate on to the endpoint, in `ssl-client-cert`.
    pub pass_certificate: bool,
    /// Serve requests that come in clear although a certificate is required: the challenge of a certificate authority (ACME's
    /// HTTP-01) comes in clear, and the route of its answer asks for no certificate itself.
    pub passes_in_clear: bool,
}

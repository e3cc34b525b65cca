use std::sync::Arc;
use std::time::Duration;

use crate::template::Template;
use crate::{Block, ClusterId};

/// Whether a request is let in says another service, which is asked before the request is served (ingress-nginx: `auth-url`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalAuth {
    /// Who is asked.
    pub cluster: ClusterId,
    /// How, and what is done with the answer.
    pub check: Arc<ExternalCheck>,
}

/// How an auth service is asked: without a body and with the client's headers. An answer of 2xx lets the request in, 401 and 403 are
/// passed on, and everything else is answered with 500.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExternalCheck {
    /// Value of `Host`.
    pub host: Template,
    /// Path and query.
    pub target: Template,
    /// Method; none for GET. One that is given has the service told the client's target and scheme too.
    pub method: Option<String>,
    /// Value of `X-Auth-Request-Redirect`; none for the client's target.
    pub redirect: Option<Template>,
    /// Headers for the service alone.
    pub request_headers: Vec<(String, Template)>,
    /// Headers of its answer that the endpoint gets in place of the client's.
    pub response_headers: Vec<String>,
    /// Variables of the route's snippet, and the headers of its answer that give them their values, in lower case and with
    /// underscores (nginx: `auth_request_set`).
    pub variables: Vec<(Arc<str>, String)>,
    /// Where clients are sent instead of a 401.
    pub signin: Option<Template>,
    /// Pass its cookies on with every status of the response.
    pub always_set_cookie: bool,
    /// For how long its answers are kept.
    pub cache: Option<ExternalAuthCache>,
    /// Changes that a snippet makes to the subrequest.
    pub script: Option<Arc<AuthScript>>,
}

/// Changes that a snippet makes to a subrequest to an auth service (ingress-nginx: `auth-snippet`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AuthScript {
    /// Steps before it is asked, of which an answer takes the place of the service's; and headers of the question.
    pub block: Block,
    /// Method; none for that of the check. What comes to no method is GET.
    pub method: Option<Template>,
}

/// How long answers of an auth service are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExternalAuthCache {
    /// What tells requests apart beside their route.
    pub key: Template,
    /// Statuses, none for all, and how long answers with them are kept. The first one that fits counts.
    pub durations: Vec<(Vec<u16>, Duration)>,
}

impl ExternalAuthCache {
    /// How long an answer with this status is kept; none if it is not.
    pub fn duration(&self, status: u16) -> Option<Duration> {
        let fits = |(statuses, _): &&(Vec<u16>, Duration)| statuses.is_empty() || statuses.contains(&status);
        self.durations.iter().find(fits).map(|(_, duration)| *duration).filter(|time| !time.is_zero())
    }
}

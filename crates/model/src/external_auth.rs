use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::template::Template;
use crate::{Block, ClusterId};

/// An auth service that decides on each request before it is served (ingress-nginx: `auth-url`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExternalAuth {
    /// Cluster of the auth service.
    pub cluster: ClusterId,
    /// The query to the auth service, and the use of its answer.
    pub check: Arc<ExternalCheck>,
}

/// A query to an auth service: without a body and with the client's headers. An answer of 2xx admits the
/// request, 401 and 403 are passed on, and every other answer becomes 500.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ExternalCheck {
    /// Value of `Host`.
    pub host: Template,
    /// Path and query.
    pub target: Template,
    /// Method of the query; none for GET. Where a method is set, the client's target and scheme are sent too.
    pub method: Option<String>,
    /// Value of `X-Auth-Request-Redirect`; none for the client's target.
    pub redirect: Option<Template>,
    /// Headers for the service alone.
    pub request_headers: Vec<(String, Template)>,
    /// Headers of the auth service's answer that replace the client's in the request to the endpoint.
    pub response_headers: Vec<String>,
    /// Variables of the route's snippet, and the headers of its answer that give them their values, in lower
    /// case and with underscores (nginx: `auth_request_set`).
    pub variables: Vec<(Arc<str>, String)>,
    /// Where clients are sent instead of a 401.
    pub signin: Option<Template>,
    /// Pass its cookies on with every status of the response.
    pub always_set_cookie: bool,
    /// Caching of the auth service's answers.
    pub cache: Option<ExternalAuthCache>,
    /// Changes that a snippet makes to the subrequest.
    pub script: Option<Arc<AuthScript>>,
}

/// Changes that a snippet makes to a subrequest to an auth service (ingress-nginx: `auth-snippet`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct AuthScript {
    /// Steps before the query, which may answer in place of the auth service, and headers of the query.
    pub block: Block,
    /// Method of the query; none for the method of the check. An expansion that is no method becomes GET.
    pub method: Option<Template>,
}

/// How long answers of an auth service are cached.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ExternalAuthCache {
    /// The cache key of a request, beside its route.
    pub key: Template,
    /// Statuses, none for all, and how long answers with them are cached. The first match counts.
    pub durations: Vec<(Vec<u16>, Duration)>,
}

impl ExternalAuthCache {
    /// How long an answer with this status is cached; none if it is not.
    pub fn duration(&self, status: u16) -> Option<Duration> {
        let fits = |(statuses, _): &&(Vec<u16>, Duration)| statuses.is_empty() || statuses.contains(&status);
        self.durations.iter().find(fits).map(|(_, duration)| *duration).filter(|time| !time.is_zero())
    }
}

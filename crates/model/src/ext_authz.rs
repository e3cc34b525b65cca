//! Services that authorize requests by Envoy's `ext_authz`.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::ClusterId;
use crate::template::Template;

/// A service that is asked about each request (`forebay.io/ext-authz-url`, the Gateway API's `ExternalAuth`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExtAuthz {
    /// Cluster of the service.
    pub cluster: ClusterId,
    /// The question, and the use of the answer.
    pub check: Arc<AuthzCheck>,
}

/// A question to an authorization service, and the use of its answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct AuthzCheck {
    /// The form of the question.
    pub protocol: AuthzProtocol,
    /// The time for the answer, from the choice of an endpoint to the end of the response.
    pub timeout: Duration,
    /// Requests are let in while the service gives no answer.
    pub fails_open: bool,
    /// The status for clients if the service gives no answer and requests are not let in.
    pub status_on_error: u16,
    /// The client's headers that the service sees; none for all. Over HTTP, [`ALWAYS_SEEN`] are seen too.
    pub allowed_headers: Option<Vec<String>>,
    /// The service sees the body.
    pub body: Option<AuthzBody>,
    /// The headers that the service may set for the endpoint, which the client itself can never set; none for
    /// all that an answer names.
    pub upstream_headers: Option<Vec<String>>,
    /// Key of cached answers, beside the route; none to cache no answer.
    pub cache_key: Option<Template>,
}

/// The client's header that a service sees over HTTP in any case, beside `Host` and `Content-Length`.
pub const ALWAYS_SEEN: &str = "Authorization";

/// The form of the question to an authorization service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum AuthzProtocol {
    /// A call of `envoy.service.auth.v3.Authorization/Check` over gRPC.
    Grpc {
        /// Value of `:authority`.
        authority: String,
        /// Values for the service, by name (`context_extensions`).
        context: Vec<(String, String)>,
    },
    /// The request's own head, with another path: 200 lets the request in.
    Http {
        /// The text before the client's path.
        prefix: String,
        /// Headers of an answer that denies a request, for the client; none for all.
        client_headers: Option<Vec<String>>,
        /// Headers of an answer that allows a request, for the client.
        client_headers_on_success: Vec<String>,
    },
}

/// The part of a request's body that an authorization service sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct AuthzBody {
    /// Bytes that the service sees at most.
    pub bytes_max: u32,
    /// The service sees the beginning of a longer body; otherwise the request is answered with 413.
    pub allows_partial: bool,
}

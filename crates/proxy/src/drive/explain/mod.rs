//! Explains the treatment of a request, without serving it.
//!
//! Nothing here decides anything. A request is taken through the functions that serve requests, in a worker
//! that has no clients and connects to nobody; a `Watch` notes the steps in the order in which they are
//! done. Anything unknown, because it depends on another service, on chance or on earlier requests, is
//! reported as such.

mod destination;
mod processor;
mod steps;
mod world;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use balance::Rollouts;
use model::{CertificateInfo, ListenerId, Route};
use observe::Reason;
use routing::Snapshot;
use waf::Report;

use crate::admit::guard::Relief;
use crate::io::event_loop::EventLoop;
pub use crate::request::stage::Stage;

use world::World;

/// A request to explain.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The listener that receives the request, one of HTTP or HTTPS.
    pub listener: ListenerId,
    /// The port that the client connects to.
    pub port: u16,
    /// Address of the connection's peer.
    pub client: IpAddr,
    /// The server name of the client's handshake (SNI), where it connects over TLS and sends one.
    pub server_name: Option<&'a str>,
    /// The request's head, as HTTP/1.
    pub head: &'a [u8],
    /// The request's body, without chunks; empty if there is none or it is not known.
    pub body: &'a [u8],
    /// The present relief from shortages; the default where no process is asked.
    pub relief: Relief,
    /// The canaries whose shares grow over a time; none where no process is asked.
    pub rollouts: Option<&'a Arc<Rollouts>>,
}

/// The treatment of a request.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The result of the TLS handshake, for a request over TLS.
    pub tls: Option<Tls>,
    /// Address of the client, after the headers of trusted hops.
    pub client: IpAddr,
    /// The normalised path that is matched with routes; none if the request has none.
    pub path: Option<String>,
    /// The host whose routes are compared; none if none is found.
    pub host: Option<String>,
    /// The route that is finally selected.
    pub route: Option<Arc<Route>>,
    /// The steps in their order.
    pub steps: Vec<Step>,
    /// The result of the route's firewall; none where the request did not come to one.
    pub inspected: Option<Inspected>,
    /// The result of the last step.
    pub outcome: Outcome,
}

/// The result of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate that is shown; none for the one generated at the start.
    pub certificate: Option<CertificateInfo>,
    /// The host that the server name selects; none if none does.
    pub host: Option<String>,
}

/// A step of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Stage of the step.
    pub stage: Stage,
    /// Effect of the step on this request.
    pub verdict: Verdict,
    /// Description of the step in words.
    pub text: String,
}

/// The result of a firewall.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// The rules that match, and the scores.
    pub report: Report,
    /// The phase in which the rules refuse the request; 0 if they let it pass.
    pub phase: u8,
    /// The rule that refuses it; none for a limit, and for a request that passes.
    pub rule: Option<u64>,
}

/// Effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request goes on unchanged.
    Passes,
    /// The request goes on, and it or its response is changed.
    Changes,
    /// The request is answered, and goes no further.
    Answers,
    /// The effect depends on unknown state. The following steps apply if the request passes this one.
    Unknown,
}

/// The final result for a request.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The handshake is refused: the settings forbid server names of no host.
    NoHandshake,
    /// The connection is passed through to an endpoint without being decrypted.
    PassedThrough(Box<Destination>),
    /// The proxy answers the request itself.
    Answered(Answered),
    /// Another backend answers it, since the proxy's own response would be an error.
    Replaced(Answered, Box<Destination>),
    /// A file answers, below the root folder: this one, or the one that replaces it.
    Files(String),
    /// The request goes to an endpoint. Of several destinations chance decides.
    Forwarded(Vec<Destination>),
}

/// A response of the proxy's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Status; 444 for none: the connection is closed.
    pub status: u16,
    /// The reason of a refusal or a failure.
    pub reason: Option<Reason>,
    /// The response head, as HTTP/1.
    pub head: String,
}

/// Endpoints that may get the request, and the head that they get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Name of the cluster: `namespace-service-port`.
    pub upstream: String,
    /// Why this cluster is chosen, where there are several.
    pub choice: Option<String>,
    /// Protocol towards the endpoints.
    pub protocol: &'static str,
    /// How one of its endpoints is picked, in words.
    pub how: String,
    /// The endpoints that may be picked for the first try.
    pub endpoints: Vec<SocketAddr>,
    /// Further endpoints, for other requests and tries.
    pub others: Vec<SocketAddr>,
    /// The request head for an endpoint, as HTTP/1; for HTTP/2 it is the same.
    pub head: String,
}

impl Answered {
    /// The value of `Location`, where the client is redirected.
    pub fn location(&self) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix("Location: "))
    }
}

/// Explains the treatment of a request under a configuration. It takes as long as the check of a password,
/// if there is one to check, and blocks its thread for so long.
///
/// # Errors
/// When the system has no thread or no descriptor for it.
pub fn explain(snapshot: &Arc<Snapshot>, asked: &Asked<'_>) -> io::Result<Explanation> {
    EventLoop::new(|| ())?.run(async { World::new(snapshot, asked)?.explain(asked).await })
}

//! What would become of a request, and why, without serving it.
//!
//! Nothing here decides anything. A request is taken through the functions that serve requests, in a worker that has no clients and
//! connects to nobody; a `Watch` notes the steps in the order in which they are done. What is not known, because
//! it is another service's word, a matter of chance or of what came before, is said to be so.

mod destination;
mod steps;
mod world;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::{CertificateInfo, ListenerId, Route};
use observe::Reason;
use routing::Snapshot;

use crate::guard::Relief;
pub use crate::stage::Stage;

use world::World;

/// A request to explain.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The listener that it comes in at, one of HTTP or HTTPS.
    pub listener: ListenerId,
    /// The port that the client connects to.
    pub port: u16,
    /// Who is at the other end of the connection.
    pub client: IpAddr,
    /// The name in the client's handshake (SNI), where it comes over TLS and sends one.
    pub server_name: Option<&'a str>,
    /// The request's head, as HTTP/1.
    pub head: &'a [u8],
    /// What is done at present about what the process is short of; nothing where there is no process.
    pub relief: Relief,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// How the client's handshake is answered, where it comes over TLS.
    pub tls: Option<Tls>,
    /// Who the client is, as far as hops are believed.
    pub client: IpAddr,
    /// The normalised path that routes are compared with; none if the request has none.
    pub path: Option<String>,
    /// The host whose routes are compared; none if none is found.
    pub host: Option<String>,
    /// The route that has the request in the end.
    pub route: Option<Arc<Route>>,
    /// What is done with it, in this order.
    pub steps: Vec<Step>,
    /// What becomes of it.
    pub outcome: Outcome,
}

/// How a handshake is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate that is shown; none for the one that is made up at the start.
    pub certificate: Option<CertificateInfo>,
    /// The host that the server name selects; none if none does.
    pub host: Option<String>,
}

/// A step of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub stage: Stage,
    /// What it comes to for this request.
    pub verdict: Verdict,
    /// The same in words.
    pub text: String,
}

/// What a step comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The request goes on as it is.
    Passes,
    /// The request goes on, and something is changed in it or in its response.
    Changes,
    /// The request is answered, and goes no further.
    Answers,
    /// That depends on something that is not known here. What follows holds if it lets the request pass.
    Unknown,
}

/// What becomes of a request in the end.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The handshake is refused: the settings want no names that are not served.
    NoHandshake,
    /// The connection is passed on to an endpoint without being decrypted.
    PassedThrough(Box<Destination>),
    /// It is answered here.
    Answered(Answered),
    /// Another backend answers it, since the answer here would be an error.
    Replaced(Answered, Box<Destination>),
    /// A file answers, below the root folder: this one, or what stands in place of it.
    Files(String),
    /// An endpoint is asked. Of several destinations chance decides.
    Forwarded(Vec<Destination>),
}

/// An answer of the proxy's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Status; 444 for none: the connection is closed.
    pub status: u16,
    /// Why, where it is refused or has failed.
    pub reason: Option<Reason>,
    /// Its head, as HTTP/1.
    pub head: String,
}

/// Endpoints that may be asked, and what they are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Name of the cluster: `namespace-service-port`.
    pub upstream: String,
    /// What the choice of this cluster is due to, where there are several.
    pub choice: Option<String>,
    /// How it is spoken to.
    pub protocol: &'static str,
    /// How one of its endpoints is picked, in words.
    pub how: String,
    /// The endpoints that may be picked at the first try.
    pub endpoints: Vec<SocketAddr>,
    /// Further ones, for other requests and tries.
    pub others: Vec<SocketAddr>,
    /// The head that an endpoint gets, as HTTP/1: HTTP/2 is told the same.
    pub head: String,
}

impl Answered {
    /// Where the client is sent.
    pub fn location(&self) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix("Location: "))
    }
}

/// Explains what becomes of a request under a configuration. It takes as long as the check of a password, if there is one to check, and
/// blocks its thread for so long.
///
/// # Errors
/// When the system has no thread or no descriptor for it.
pub fn explain(snapshot: &Arc<Snapshot>, asked: &Asked<'_>) -> io::Result<Explanation> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async { World::new(snapshot, asked.relief)?.explain(asked).await })
}

//! The parts that a worker is made from: its own, and those that all workers share.

use std::rc::Rc;
use std::sync::Arc;

use balance::Rollouts;
use clients::Clients;
use clock::Clock;
use identity::oidc::directory::Directory;
use observe::Recorder;
use observe::spans::SpanSink;

use super::alternatives::Alternatives;
use super::log::Log;
use super::notices::Notices;
use crate::body::BodyStore;
use crate::io::deadline::Deadlines;
use crate::io::handed::HandedSockets;
use crate::io::quic::SharedQuic;
use crate::options::{Budget, Share};
use crate::replicas::ReplicaSecret;
use crate::store::Cache;
use crate::store::forms::Forms;
use crate::upstream::Pool;

/// Parts that a worker is made from.
pub(crate) struct WorkerParts {
    pub(crate) clock: Clock,
    pub(crate) deadlines: Rc<Deadlines>,
    pub(crate) pool: Pool,
    pub(crate) recorder: Recorder,
    pub(crate) log: Log,
    pub(crate) spans: SpanSink,
    pub(crate) share: Share,
    pub(crate) shared: SharedParts,
}

/// Parts that all workers have in common.
#[derive(Clone)]
pub(crate) struct SharedParts {
    pub(crate) clients: Arc<Clients>,
    pub(crate) bodies: Arc<BodyStore>,
    pub(crate) files: Option<Arc<::files::Store>>,
    pub(crate) cache: Option<Arc<Cache>>,
    pub(crate) forms: Option<Arc<Forms>>,
    pub(crate) replica_secret: Option<ReplicaSecret>,
    /// The providers at which people sign in.
    pub(crate) sign_ins: Directory,
    pub(crate) budget: Budget,
    /// Keys and mailboxes of QUIC.
    pub(crate) quic: Arc<SharedQuic>,
    /// Canaries whose shares grow over a time.
    pub(crate) rollouts: Arc<Rollouts>,
    /// Listening sockets of another process.
    pub(crate) handed: Arc<HandedSockets>,
    /// Hosts that clients have reached over HTTP/3.
    pub(crate) alternatives: Arc<Alternatives>,
    /// Notices for the log.
    pub(crate) notices: Arc<Notices>,
}

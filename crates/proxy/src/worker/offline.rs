//! A worker that serves nobody: its log, its spans and its shared tables are its own, and go nowhere.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use balance::Rollouts;
use clients::Clients;
use clock::Clock;
use identity::oidc::directory::Directory;
use observe::log::Writer;
use observe::spans::SpanExporter;
use observe::{MetricsOptions, Registry};
use routing::Snapshot;

use super::{Log, Published, SharedParts, Worker, WorkerParts, plans};
use crate::body::BodyStore;
use crate::io::deadline::Deadlines;
use crate::io::quic::SharedQuic;
use crate::io::sys;
use crate::io::tls::{SharedTls, TlsListeners};
use crate::options::{Budget, Share};
use crate::upstream::{Pool, SharedPool, Sources};

impl Worker {
    /// A worker without clients, without a cache and without other workers, for requests that are only
    /// imagined.
    pub(crate) fn offline(snapshot: &Arc<Snapshot>) -> io::Result<Rc<Self>> {
        let rollouts = Rollouts::default();
        rollouts.follow(plans(snapshot), Clock::new(Clock::begin()).unix());
        Self::offline_with(snapshot, Arc::new(rollouts))
    }

    /// The same, with the canaries of a process that runs.
    pub(crate) fn offline_with(snapshot: &Arc<Snapshot>, rollouts: Arc<Rollouts>) -> io::Result<Rc<Self>> {
        let start = Clock::begin();
        let (clock, registry) = (Clock::new(start), Registry::new(MetricsOptions::default()));
        let shared_tls = SharedTls::new(start, None)?;
        let tls_listeners = TlsListeners::new(snapshot, &shared_tls, None);
        let (recorder, writer) = (registry.recorder(), Writer::spawn(io::sink(), &registry)?);
        let log = Log::new(writer.sinks(&recorder), Arc::from(""));
        // Nothing is configured for it, so that no span is sent.
        let spans = SpanExporter::new(&registry).sink();
        let deadlines = Deadlines::new(clock.clone(), Arc::default());
        let sources = Sources::new(Vec::new());
        let pool = Pool::new(0, &clock, &deadlines, SharedPool::new(1, Arc::default()), registry, sources);
        let shared = SharedParts {
            clients: Clients::start(1, None, sys::yield_to_others)?,
            bodies: Arc::new(BodyStore::new(None)),
            files: None,
            cache: None,
            forms: None,
            replica_secret: None,
            sign_ins: Directory::default(),
            budget: Budget { connections: 1, datagram_sessions: 1 },
            quic: SharedQuic::new(None, 1, None)?,
            rollouts,
            handed: Arc::default(),
            alternatives: Arc::default(),
            notices: Arc::default(),
        };
        let share = Share { index: 0, of: 1 };
        let parts = WorkerParts { clock, deadlines, pool, recorder, log, spans, share, shared };
        Ok(Self::new(parts, Published { snapshot: Arc::clone(snapshot), tls_listeners }))
    }
}

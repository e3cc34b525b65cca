//! TLS configurations by listener: hosts, and with them certificates, are looked up among those of the
//! listener that a connection was accepted at.

use std::sync::Arc;

use model::ListenerId;
use routing::Snapshot;

use super::quic::QuicConfigs;
use super::server_configs::{ServerConfigs, SharedTls};

/// The listeners of a Snapshot whose clients speak TLS.
pub(crate) struct TlsListeners(Vec<(ListenerId, Arc<ServerConfigs>)>);

impl TlsListeners {
    /// Unchanged parts are reused from the previous generation. Listeners with the same hosts share their
    /// configurations.
    pub(crate) fn new(
        snapshot: &Snapshot,
        shared_tls: &Arc<SharedTls>,
        previous: Option<&Self>,
    ) -> Arc<Self> {
        let mut made: Vec<(ListenerId, Arc<ServerConfigs>)> = Vec::new();
        for listener in snapshot.listeners().iter().filter(|listener| listener.id.is_tls()) {
            let Some(hosts) = listener.hosts() else { continue };
            let shared =
                made.iter().find(|(_, configs)| configs.is_of(hosts)).map(|(_, one)| Arc::clone(one));
            let configs = shared.unwrap_or_else(|| {
                let old = previous.and_then(|previous| previous.shared(listener.id));
                let same = old.and_then(|old| old.of_same(hosts, &snapshot.settings.tls));
                same.unwrap_or_else(|| {
                    ServerConfigs::new(hosts, &snapshot.settings.tls, shared_tls, old.map(|old| &**old))
                })
            });
            made.push((listener.id, configs));
        }
        Arc::new(Self(made))
    }

    /// The TLS configurations of a listener; none where it is gone, or has no TLS.
    pub(crate) fn get(&self, listener: ListenerId) -> Option<&ServerConfigs> {
        self.shared(listener).map(|configs| &**configs)
    }

    fn shared(&self, listener: ListenerId) -> Option<&Arc<ServerConfigs>> {
        self.0.iter().find(|(id, _)| *id == listener).map(|(_, configs)| configs)
    }

    /// The same for QUIC; none if the cryptography has no suite for it either.
    pub(crate) fn of_quic(&self, listener: ListenerId) -> Option<Arc<QuicConfigs>> {
        let (_, configs) = self.0.iter().find(|(id, _)| *id == listener)?;
        QuicConfigs::new(Arc::clone(configs))
    }
}

//! Watches of `EndpointSlice`s that replicas share, as the flags ask for them.

use std::net::SocketAddr;

use anyhow::Context;
use control::relay::{Relay, RelayOptions};
use observe::RelayFigures;
use serde::{Deserialize, Serialize};
use tokio::net::TcpSocket;

use crate::{cli, replicas, server, trouble};

/// Followers that wait to be accepted.
const BACKLOG: u32 = 128;

/// A replica's part in shared watches, at `/status`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RelayStatus {
    /// The address of the replica from which slices come; none where they come from the API server.
    pub(crate) relay: Option<String>,
    /// Replicas that get slices from this one.
    pub(crate) followers: usize,
}

impl RelayStatus {
    pub(crate) fn of(relay: &Relay) -> Self {
        let figures = relay.figures();
        Self { relay: figures.relay.map(|relay| relay.to_string()), followers: figures.followers }
    }
}

/// Starts the server of followers, if watches are shared.
pub(crate) fn start(cluster: &cli::Cluster, reading: &cli::Reading) -> anyhow::Result<Option<Relay>> {
    let Some(per_watch) = cluster.replicas_per_watch else { return Ok(None) };
    let lacking = |what| format!("--replicas-per-watch needs {what}");
    let relay = Relay::new(RelayOptions {
        per_watch: per_watch as usize,
        port: cluster.replicas_watch_port,
        service: reading.replicas_service.clone().with_context(|| lacking("--replicas-service"))?,
        own: reading.own_address().with_context(|| lacking("--replica-address, or the variable POD_IP"))?,
        secret: replicas::read(reading)?.with_context(|| lacking("--replicas-secret"))?,
    });
    let address = relay.address();
    let listener = bind(address)
        .map_err(|error| trouble::cannot_listen(&address.to_string(), &error, "--replicas-watch-port"))?;
    let serving = relay.clone();
    server::spawn("relay", listener, move |listener| serving.serve(listener))?;
    tracing::info!(%address, per_watch, "sharing the watch of EndpointSlices with other replicas");
    Ok(Some(relay))
}

/// Binds an address that the process before this one may still have: that one refuses followers once this one
/// serves.
fn bind(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

/// The figures for `/metrics`.
pub(crate) fn figures(relay: &Relay) -> RelayFigures {
    let figures = relay.figures();
    RelayFigures {
        follows: figures.relay.is_some(),
        followers: figures.followers,
        fallbacks: figures.fallbacks,
        cut: figures.cut,
        sent_bytes: figures.sent_bytes,
    }
}

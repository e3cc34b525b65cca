//! The other replicas are told what to forget by who is no worker, over connections of its own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use routing::Snapshot;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::h1::{Fields, parse_response};

use super::forget::{Order, requests};
use super::members::addresses;
use super::peers::ReplicaSecret;
use super::tell::is_replicas;
use crate::cache::Purge;
use crate::clock::{Clock, Start};
use crate::limits::{REPLICA_PURGE_TIME_MAX, RESPONSE_HEAD_BYTES_MAX};

/// What has become of a purge at the other replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// How many have carried it out.
    pub told: usize,
    /// Those of which that is not known.
    pub unreached: Vec<IpAddr>,
}

/// Tells replicas on behalf of the process.
#[derive(Clone)]
pub(crate) struct Announcer {
    secret: Option<ReplicaSecret>,
    start: Start,
}

impl Announcer {
    pub(crate) fn new(secret: Option<ReplicaSecret>, start: Start) -> Self {
        Self { secret, start }
    }

    /// Has all others carry out purges; nobody where nothing is shared.
    pub(crate) async fn purge(&self, snapshot: &Snapshot, purges: &[Purge]) -> Elsewhere {
        let Some(secret) = &self.secret else { return Elsewhere::default() };
        let orders: Vec<_> = purges.iter().cloned().map(Order::Purge).collect();
        let now = Clock::new(self.start).unix().as_secs();
        let own = snapshot.settings.replicas.as_ref().map(|replicas| replicas.own);
        announce(addresses(snapshot), own, &orders, now, secret).await
    }
}

/// Tells replicas at these addresses, all at once. It needs a runtime with timers, which workers have not.
async fn announce(
    addresses: Vec<SocketAddr>,
    own: Option<IpAddr>,
    orders: &[Order],
    now: u64,
    secret: &ReplicaSecret,
) -> Elsewhere {
    let (requests, unsaid) = requests(orders, now, secret);
    let requests: Arc<[Vec<u8>]> = requests.into();
    let mut running = JoinSet::new();
    for address in addresses {
        let requests = Arc::clone(&requests);
        running.spawn(async move {
            let told = timeout(REPLICA_PURGE_TIME_MAX, say(address, own, &requests)).await;
            (address.ip(), matches!(told, Ok(Ok(true))))
        });
    }
    let mut elsewhere = Elsewhere::default();
    for (address, is_told) in running.join_all().await {
        if is_told && unsaid == 0 {
            elsewhere.told += 1;
        } else {
            elsewhere.unreached.push(address);
        }
    }
    elsewhere.unreached.sort_unstable();
    elsewhere
}

/// Sends requests one by one. False where one is answered by who is no replica.
async fn say(address: SocketAddr, own: Option<IpAddr>, requests: &[Vec<u8>]) -> io::Result<bool> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(own) = own.filter(|own| own.is_ipv4() == address.is_ipv4()) {
        // By that address the other one knows a replica. Where it is not this machine's, another one will have to do.
        let _ = socket.bind(SocketAddr::new(own, 0));
    }
    let mut stream = socket.connect(address).await?;
    for request in requests {
        stream.write_all(request).await?;
        let mut head = Vec::new();
        let is_told = loop {
            if stream.read_buf(&mut head).await? == 0 || head.len() > RESPONSE_HEAD_BYTES_MAX {
                return Ok(false);
            }
            match parse_response(&head, Fields::default()) {
                Ok(Some(response)) => break is_replicas(&head, &response),
                Ok(None) => {}
                Err(_) => return Ok(false),
            }
        };
        if !is_told {
            return Ok(false);
        }
    }
    Ok(true)
}

//! `/console/replicas`: the overviews of all replicas, so that one page shows them together.
//!
//! Replicas are the endpoints of `--replicas-service`. Each is queried for `/console/state` at its admin
//! port, which is this process's own, with a pass under the secret that all replicas share: admin servers
//! answer no other Pods.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderName, Method};
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use proxy::ReplicaSecret;
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinSet;

use super::events::Watchers;
use super::seen::Seen;
use crate::ask::Address;

/// Most replicas that are queried. Further ones are only counted.
const ASKED_MAX: usize = 100;

/// Time for a replica to answer: one without watchers measures for a second first.
const WITHIN: Duration = Duration::from_secs(5);

/// The header that a pass is in.
const PASS: HeaderName = HeaderName::from_static("forebay-replica");

/// The secret and the port by which replicas ask each other.
pub(crate) struct Replicas {
    /// None where replicas share nothing: then they do not know each other.
    pub(crate) secret: Option<ReplicaSecret>,
    /// The port of the admin server, here and at all others.
    pub(crate) port: u16,
}

/// All replicas with their overviews.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplicasJson {
    /// Whether replicas know each other. If not, there is this one alone.
    is_shared: bool,
    /// Replicas that were not asked, since there are too many.
    omitted: usize,
    /// This one first, the others by address.
    replicas: Vec<Replica>,
}

#[derive(Serialize)]
struct Replica {
    /// None for this one where replicas do not know each other.
    address: Option<IpAddr>,
    /// As `/console/state` has it; none where it did not answer.
    state: Option<Value>,
    /// Why it did not.
    error: Option<String>,
}

impl Replicas {
    /// The overviews of all.
    pub(super) async fn told(&self, watchers: &Arc<Watchers>, seen: &Arc<Seen>) -> Bytes {
        let own = own(seen);
        let mut others = others(seen);
        let omitted = others.len().saturating_sub(ASKED_MAX);
        others.truncate(ASKED_MAX);
        let mut asked = JoinSet::new();
        for address in others {
            let pass = self.secret.as_ref().map(|secret| secret.pass(address, now())).unwrap_or_default();
            let at = SocketAddr::new(address, self.port);
            asked.spawn(async move { Replica::of(Some(address), ask(at, &pass).await) });
        }
        let busy = || anyhow::anyhow!("the process is too busy to measure");
        let state = watchers.state(seen).await.ok_or_else(busy);
        let mut replicas = asked.join_all().await;
        replicas.sort_by_key(|replica| replica.address);
        replicas.insert(0, Replica::of(own, state));
        super::bytes(&ReplicasJson { is_shared: own.is_some(), omitted, replicas })
    }

    /// Whether a request for the overview is another replica's.
    pub(super) fn is_others(&self, headers: &HeaderMap, seen: &Seen) -> bool {
        let (Some(secret), Some(pass), Some(own)) = (&self.secret, headers.get(PASS), own(seen)) else {
            return false;
        };
        pass.to_str().is_ok_and(|pass| secret.takes_pass(pass, own, now()))
    }
}

impl Replica {
    fn of(address: Option<IpAddr>, state: anyhow::Result<Bytes>) -> Self {
        let read = |bytes: Bytes| Ok(serde_json::from_slice(&bytes)?);
        match state.and_then(read) {
            Ok(state) => Self { address, state: Some(state), error: None },
            Err(error) => Self { address, state: None, error: Some(format!("{error:#}")) },
        }
    }
}

async fn ask(at: SocketAddr, pass: &str) -> anyhow::Result<Bytes> {
    let asking = async {
        let mut conversation = Address::parse(&at.to_string())?.connect().await?;
        conversation
            .send(Method::GET, "/console/state", Some((PASS, pass)), Bytes::new())
            .await?
            .content(&at.to_string())
    };
    tokio::time::timeout(WITHIN, asking).await.unwrap_or_else(|_| anyhow::bail!("no answer within 5 s"))
}

fn own(seen: &Seen) -> Option<IpAddr> {
    Some(seen.served()?.snapshot.settings.replicas.as_ref()?.own)
}

/// The addresses of the other replicas.
fn others(seen: &Seen) -> Vec<IpAddr> {
    let known = seen.served().map(|served| proxy::other_replicas(&served.snapshot)).unwrap_or_default();
    let mut others: Vec<_> = known.iter().map(SocketAddr::ip).collect();
    others.sort_unstable();
    others.dedup();
    others
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

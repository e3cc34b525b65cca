//! Services that decide about requests by Envoy's protocols: one that lets everything pass. It runs in this
//! process, for each peer alike.

use serde::Deserialize;
use testkit::{GrpcReply, GrpcServer};

/// The protocol of a service.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Decider {
    ExtAuthz,
    ExtProc,
}

/// The Service's name in manifests, and the cluster's in Envoy's configuration.
pub(super) const NAME: &str = "decider";

impl Decider {
    pub(super) fn start(self) -> GrpcServer {
        match self {
            // `CheckResponse` with an empty `status`, whose code is OK.
            Self::ExtAuthz => GrpcServer::new(|_| vec![GrpcReply::Message(vec![0x0a, 0]), GrpcReply::End(0)]),
            Self::ExtProc => GrpcServer::new(|message| vec![GrpcReply::Message(unchanged(message))]),
        }
    }
}

/// The `ProcessingResponse` that changes nothing: the parts of a `ProcessingRequest` have numbers from 2 on,
/// and those of the responses to them have numbers from 1 on.
fn unchanged(message: &[u8]) -> Vec<u8> {
    let part = message.first().map_or(2, |tag| tag >> 3);
    vec![(part - 1) << 3 | 2, 0]
}

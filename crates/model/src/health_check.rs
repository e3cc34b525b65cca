//! Active health checks of the endpoints of a cluster: what is sent, how often, and which answers pass.
//!
//! Never in here: sockets, and the conclusions from a check.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Serialize;

/// The health check of each endpoint of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct HealthCheck {
    /// The request that is sent, and the answers that pass.
    pub probe: HealthProbe,
    /// Time between two checks of an endpoint, before jitter.
    pub interval: Duration,
    /// Longest time of a check, the connect included.
    pub timeout: Duration,
    /// Passed checks in a row after which an endpoint that was left out is used again.
    pub rise: u32,
    /// Failed checks in a row after which an endpoint is left out.
    pub fall: u32,
    /// Endpoints are checked in each interval even where they answer requests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
}

/// The request that a health check sends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum HealthProbe {
    /// A GET request.
    Http {
        /// Path, which may have a query.
        path: Box<str>,
        /// `Host` of the request; none for the endpoint's address.
        host: Option<Box<str>>,
        /// The statuses that pass.
        statuses: Vec<RangeInclusive<u16>>,
    },
    /// A call of `grpc.health.v1.Health/Check`.
    Grpc {
        /// The name of the service; empty for the server as a whole.
        service: Box<str>,
        /// `:authority` of the call; none for the endpoint's address.
        host: Option<Box<str>>,
    },
    /// A TCP connection, and the TLS handshake where the endpoints have TLS.
    Connect,
}

impl HealthCheck {
    /// The check in a few words.
    pub fn in_words(&self) -> String {
        let what = match &self.probe {
            HealthProbe::Http { path, .. } => format!("GET {path}"),
            HealthProbe::Grpc { service, .. } if service.is_empty() => "gRPC health".to_owned(),
            HealthProbe::Grpc { service, .. } => format!("gRPC health of {service}"),
            HealthProbe::Connect => "a TCP connect".to_owned(),
        };
        let Self { interval, timeout, rise, fall, .. } = self;
        format!("{what} every {interval:?}, at most {timeout:?}; out after {fall}, back after {rise}")
    }
}

impl HealthProbe {
    /// Whether a response with this status passes.
    pub fn passes(&self, status: u16) -> bool {
        match self {
            Self::Http { statuses, .. } => statuses.iter().any(|range| range.contains(&status)),
            Self::Grpc { .. } => status == 200,
            Self::Connect => true,
        }
    }
}

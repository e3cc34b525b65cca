//! Prometheus metrics: recorded by workers, added up on scrape.

mod encode;
mod histogram;
mod local_counter;
pub(crate) mod names;
mod options;
mod recorder;
mod registry;
mod sample;
mod series;
mod stream;
mod upstream;
mod worker_cells;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use encode::CONTENT_TYPE;
pub use local_counter::LocalCounter;
pub use options::{BuildInfo, Controller, MetricsOptions};
pub use recorder::Recorder;
pub use registry::{Process, Registry};
pub use sample::{Sample, UpstreamSample};
pub use stream::{StreamCells, StreamCounter, StreamName};
pub use upstream::{EndpointCells, Failure, PortCells};
pub(crate) use worker_cells::WorkerCells;

table! {
    /// The method of a request, as a label. Unknown methods share one value, so that the number of series is bounded.
    Method {
        "GET" => Get, "RFC 9110.";
        "HEAD" => Head, "RFC 9110.";
        "POST" => Post, "RFC 9110.";
        "PUT" => Put, "RFC 9110.";
        "DELETE" => Delete, "RFC 9110.";
        "CONNECT" => Connect, "RFC 9110.";
        "OPTIONS" => Options, "RFC 9110.";
        "TRACE" => Trace, "RFC 9110.";
        "PATCH" => Patch, "RFC 5789.";
        "PROPFIND" => Propfind, "RFC 4918.";
        "PROPPATCH" => Proppatch, "RFC 4918.";
        "MKCOL" => Mkcol, "RFC 4918.";
        "COPY" => Copy, "RFC 4918.";
        "MOVE" => Move, "RFC 4918.";
        "LOCK" => Lock, "RFC 4918.";
        "UNLOCK" => Unlock, "RFC 4918.";
        "OTHER" => Other, "Any other one.";
    }
}

impl Method {
    /// The method by its name in a request line. Methods are case-sensitive.
    pub fn from_bytes(name: &[u8]) -> Self {
        // The most frequent methods are compared first.
        if name == b"GET" {
            return Self::Get;
        }
        Self::ALL.iter().copied().find(|method| method.name().as_bytes() == name).unwrap_or(Self::Other)
    }
}

table! {
    /// An event that a worker counts.
    Counter {
        "accepted" => ConnectionsAccepted, "Client connections that were accepted.";
        "handled" => ConnectionsHandled, "Client connections that were served rather than refused by a limit.";
        "requests" => Requests, "Requests of which a head was read.";
        "series_dropped" => SeriesDropped, "Requests that no series had room for.";
        "mirrors_dropped" => MirrorsDropped, "Copies of requests that were not sent.";
        "log_lines_dropped" => LogLinesDropped, "Lines of the access log that the writer had no room for.";
    }
}

table! {
    /// How a TLS handshake with a client was completed: by which kind of signature, or by resumption.
    Handshake {
        "ecdsa" => Ecdsa, "In full, with an ECDSA key.";
        "rsa" => Rsa, "In full, with an RSA key.";
        "ed25519" => Ed25519, "In full, with an Ed25519 key.";
        "none" => Resumed, "By a session that was resumed: nothing is signed.";
    }
}

table! {
    /// A number of things that a worker has at the moment.
    Gauge {
        "active" => ConnectionsActive, "Client connections.";
        "reading" => ConnectionsReading, "Client connections of which a request head is being read.";
        "writing" => ConnectionsWriting, "Client connections of which a request is being served.";
        "waiting" => ConnectionsWaiting, "Client connections between two requests.";
    }
}

/// Locks without regard to poisoning: no lock guards data that a panic could leave inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

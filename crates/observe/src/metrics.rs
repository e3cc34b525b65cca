//! Prometheus metrics: recorded by workers, added up on scrape.

mod abuse;
mod cache;
mod canaries;
mod canary_figures;
mod causes;
mod check_fault;
mod coding;
mod countries;
mod encode;
mod ext_authz;
mod ext_proc;
mod fine;
mod firewall;
mod guard;
mod guard_page;
mod histogram;
mod local_counter;
pub(crate) mod names;
mod options;
mod overload;
mod recorder;
mod registry;
mod relay;
mod relay_figures;
mod rule_cells;
mod sample;
mod series;
mod sign_ins;
mod stream;
mod tokens;
mod upstream;
mod view;
mod worker_cells;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use cache::{CacheTotals, DiskFigures};
pub use canary_figures::CanaryFigures;
pub use check_fault::CheckFault;
pub use coding::{CodingCells, Recoding};
pub use encode::CONTENT_TYPE;
pub use encode::brief::{BriefReader, EndpointSums};
pub use ext_authz::AuthzResult;
pub use ext_proc::ProcessorResult;
pub use firewall::FirewallResult;
pub use guard::GuardFigure;
pub use local_counter::LocalCounter;
pub use options::{BuildInfo, Controller, MetricsOptions};
pub use overload::{ClusterOverload, EndpointOverload, OverloadCells, PRIORITIES, Wait, Waits};
pub use recorder::Recorder;
pub use registry::{HeapPages, Judged, Orphan, Process, Registry};
pub use relay_figures::RelayFigures;
pub use sample::{Sample, UpstreamSample};
pub use sign_ins::SignIns;
pub use stream::{StreamCells, StreamCounter, StreamName};
pub use upstream::{EndpointCells, Failure, PortCells};
pub use view::{
    EndpointTotals, PortTotals, SeriesChange, SeriesReader, Served, StreamTotals, latency_bounds,
};
pub(crate) use worker_cells::WorkerCells;

table! {
    /// The method of a request, as a label. Unknown methods share one value, so that the number of series is
    /// bounded.
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
    /// The result of a cache for a request.
    CacheResult {
        "hit" => Hit, "It was answered from the cache.";
        "miss" => Miss, "It went on to an endpoint, since nothing was kept for it.";
        "expired" => Expired, "It went on to an endpoint, since what was kept counted no more.";
        "stale" => Stale, "It was given what was stale.";
        "revalidated" => Revalidated, "The endpoint said that what is kept still counts.";
        "collapsed" => Collapsed, "It went along with another one.";
        "bypass" => Bypass, "The cache has nothing to do with it.";
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
        "fallbacks" => Fallbacks, "Requests that went on to a cluster that their route falls back to.";
        "waf_passed" => FirewallPassed, "Requests of which no rule of their firewall matched that is logged.";
        "waf_matched" => FirewallMatched, "Requests of which rules matched, and that went on.";
        "waf_exhausted" => FirewallExhausted, "Requests whose rules ran out of their budget of work.";
        "waf_blocked" => FirewallBlocked, "Requests that a rule refused, or whose response one refused.";
        "ext_authz_allowed" => ExtAuthzAllowed, "Requests that an authorization service let in.";
        "ext_authz_denied" => ExtAuthzDenied, "Requests that an authorization service refused.";
        "ext_authz_errors" => ExtAuthzErrors, "Requests for which an authorization service gave no answer that could be obeyed.";
        "ext_authz_micros" => ExtAuthzMicros, "Microseconds that requests waited for authorization services.";
        "ext_proc_processed" => ExtProcProcessed, "Requests that went through an external processor.";
        "ext_proc_answered" => ExtProcAnswered, "Requests that an external processor answered in place of the endpoint.";
        "ext_proc_failed" => ExtProcFailed, "Requests whose external processor failed, which the client was told.";
        "ext_proc_passed_by" => ExtProcPassedBy, "Requests whose external processor failed, and that went on without it.";
        "ext_proc_messages" => ExtProcMessages, "Messages to external processors.";
        "ext_proc_micros" => ExtProcMicros, "Microseconds that requests waited for external processors.";
        "abuse_slowed" => AbuseSlowed, "Requests that waited since their client is far off the others.";
        "abuse_refused" => AbuseRefused, "Requests that were refused for that.";
        "abuse_closed" => AbuseClosed, "Connections that were closed for that before anything was said on them.";
        "abuse_would_slow" => AbuseWouldSlow, "Requests that would have waited.";
        "abuse_would_refuse" => AbuseWouldRefuse, "Requests that would have been refused.";
        "abuse_would_close" => AbuseWouldClose, "Connections that would have been closed.";
        "guard_shed_normal" => GuardShedNormal, "Requests of normal priority that were refused since the process is short of something.";
        "guard_shed_sheddable" => GuardShedSheddable, "Requests of sheddable priority that were refused for that.";
        "guard_would_shed_normal" => GuardWouldShedNormal, "Requests of normal priority that would have been refused.";
        "guard_would_shed_sheddable" => GuardWouldShedSheddable, "Requests of sheddable priority that would have been refused.";
        "repeated" => TokenRepeated, "Tokens that were verified before.";
        "verified" => TokenVerified, "Tokens that were verified.";
        "absent" => TokenAbsent, "Requests without a token where one is needed.";
        "malformed" => TokenMalformed, "Tokens that are none.";
        "too_long" => TokenTooLong, "Tokens that are too long.";
        "algorithm" => TokenAlgorithm, "Tokens with an algorithm that is not allowed.";
        "issuer" => TokenIssuer, "Tokens of an issuer that is not trusted.";
        "audience" => TokenAudience, "Tokens for others.";
        "expired" => TokenExpired, "Tokens that have expired.";
        "early" => TokenEarly, "Tokens that are not valid yet.";
        "claims" => TokenClaims, "Tokens whose claims do not satisfy the conditions of the issuer.";
        "key" => TokenKey, "Tokens with a key that the issuer does not have.";
        "signature" => TokenSignature, "Tokens with a signature that is not the issuer's.";
        "no_keys" => TokenNoKeys, "Tokens of an issuer whose keys are not known.";
        "exhausted" => TokenExhausted, "Tokens of a client that has had too many forged ones.";
        "spare_descriptor" => SpareDescriptor, "Connections that were turned away with the descriptor that is kept for that.";
        "answered" => CacheHomeAnswered, "Requests that another replica answered, at which the object has its home.";
        "told" => CacheForgetTold, "Changes that another replica was told of, so that it keeps nothing old.";
        "unreached" => CacheForgetUnreached, "Changes that it was not told of, or not soon enough.";
        "failed" => CacheHomeFailed, "Requests that it did not answer, or not soon enough, and that went on without it.";
        "worker" => QuicToWorker, "Packets of HTTP/3 that were handed to the worker that has their connection.";
        "process" => QuicToProcess, "Packets that were handed to the process that has their connection, in an upgrade.";
        "replica" => QuicToReplica, "Packets that were forwarded to the replica that has their connection.";
        "client" => QuicToClient, "Packets of another replica that were sent on to its client.";
        "full" => QuicForwardFull, "Packets that were dropped, since the worker has as many as it may.";
        "refused" => QuicForwardRefused, "Forwarded packets that no replica has made, or not for this one.";
        "ended" => QuicResetEnded, "Stateless resets for connections of this process that have ended, or of one before a restart.";
        "process" => QuicResetProcess, "Stateless resets for connections of a process that was replaced in an upgrade and has ended.";
        "replica" => QuicResetReplica, "Stateless resets for connections of a replica that is gone.";
        "sent" => CountsSent, "Datagrams with counts that were sent to another replica.";
        "unsent" => CountsUnsent, "Datagrams with counts that could not be sent.";
        "taken" => CountsTaken, "Datagrams with counts of another replica.";
        "garbage" => CountsGarbage, "Datagrams that are none with counts.";
        "forged" => CountsForged, "Datagrams with counts by who does not know the secret.";
        "stale" => CountsStale, "Datagrams with counts that are too old, or from a clock that is wrong.";
        "replayed" => CountsReplayed, "Datagrams with counts that have come already, or after a newer one.";
        "strange" => CountsStrange, "Datagrams from who is no replica.";
        "in_time" => LimitRedisInTime, "Exchanges of counts with Redis.";
        "slow" => LimitRedisSlow, "Exchanges with it that took so long that no request waited for them.";
        "unreachable" => LimitRedisUnreachable, "Exchanges with it for which there was no connection.";
        "silent" => LimitRedisSilent, "Exchanges that it did not answer in time.";
        "refused" => LimitRedisRefused, "Exchanges that it answered with an error.";
        "not_redis" => LimitRedisGarbage, "Exchanges that it answered with what is no answer.";
        "waited" => LimitRedisWaited, "Requests that waited for an exchange.";
        "alone" => LimitRedisAlone, "Requests that were counted here alone, since Redis was not there.";
        "closed" => LimitRedisClosed, "Requests that were refused for that.";
        "log_lines_dropped" => LogLinesDropped, "Lines of the access log that the writer had no room for.";
    }
}

table! {
    /// A resource whose shortage this process detects.
    Shortage {
        "cpu_throttled" => CpuThrottled, "Periods in which the CPU quota of its cgroup was used up, of those in which it ran.";
        "cpu_stalled" => CpuStalled, "Time in which a thread of its cgroup waited for a CPU (PSI), where the kernel tells.";
        "memory" => Memory, "Memory of its cgroup that cannot be given back, of the limit.";
        "descriptors" => Descriptors, "Open files, of `RLIMIT_NOFILE`.";
        "ports" => Ports, "Local ports towards one endpoint, of the range that there is.";
        "accept_queue" => AcceptQueue, "Connections that wait to be accepted, of the longest queue there may be.";
        "loop_lag" => LoopLag, "Time from a tick to its turn in the loop of a worker, of a second.";
    }
}

table! {
    /// The completion of a TLS handshake with a client: by a kind of signature, or by resumption.
    Handshake {
        "ecdsa" => Ecdsa, "In full, with an ECDSA key.";
        "rsa" => Rsa, "In full, with an RSA key.";
        "ed25519" => Ed25519, "In full, with an Ed25519 key.";
        "none" => Resumed, "By a session that was resumed: nothing is signed.";
    }
}

table! {
    /// A present number of a worker.
    Gauge {
        "active" => ConnectionsActive, "Client connections.";
        "reading" => ConnectionsReading, "Client connections of which a request head is being read.";
        "writing" => ConnectionsWriting, "Client connections of which a request is being served.";
        "waiting" => ConnectionsWaiting, "Client connections between two requests.";
    }
}

/// Locks and ignores poisoning: no lock guards data that a panic could leave inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

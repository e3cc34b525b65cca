//! Host and time of a request, as sessions depend on them.

use std::borrow::Cow;

use crate::admit::Targeted;

/// The host that the client has asked for, with its port, in lower case.
pub(super) fn host<'h>(targeted: &Targeted<'h>) -> Cow<'h, [u8]> {
    let host: &'h [u8] = targeted.forwarded.host;
    if host.iter().any(u8::is_ascii_uppercase) { host.to_ascii_lowercase().into() } else { host.into() }
}

/// Scheme and host of the URLs at which the client reaches this host.
pub(super) fn origin(targeted: &Targeted<'_>) -> String {
    let scheme = if targeted.forwarded.scheme.eq_ignore_ascii_case(b"https") { "https" } else { "http" };
    format!("{scheme}://{}", String::from_utf8_lossy(&host(targeted)))
}

pub(super) fn now(targeted: &Targeted<'_>) -> u64 {
    targeted.worker.clock.wall().as_secs()
}

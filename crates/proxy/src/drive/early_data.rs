//! Requests that come before the handshake is complete (RFC 8470): somebody who has recorded them may send
//! them again.
//!
//! Sessions are resumed once and from one address (`io::tls`), so that a copy is not taken by the same
//! process. An endpoint is told nevertheless, since only it knows what a repeated request would do.

use model::{ListenerId, VerifyClient};
use observe::Reason;
use wire::h1::Request;
use wire::h3::append_field;

use crate::request::reply;
use crate::worker::WorkerConfig;

/// The methods that change nothing (RFC 9110 section 9.2.1).
const SAFE_METHODS: [&[u8]; 3] = [b"GET", b"HEAD", b"OPTIONS"];

/// Takes an early request, and adds the field that tells its endpoint, if its method is safe and its host
/// allows it. The connection may have been made for another host.
pub(super) fn admit(
    config: &WorkerConfig,
    listener: ListenerId,
    head: &mut Vec<u8>,
    request: &mut Request,
) -> Result<(), Reason> {
    let is_safe = SAFE_METHODS.contains(&&head[request.method.clone()]);
    let hosts = config.snapshot.hosts_of(listener);
    let host = hosts.and_then(|hosts| hosts.find(&head[request.host.clone()]));
    let is_allowed = host.is_some_and(|host| {
        let tls = host.tls();
        let asks_clients = tls.client_auth.as_ref().is_some_and(|auth| auth.verify != VerifyClient::Off);
        !asks_clients && tls.early_data.unwrap_or(config.settings().tls.early_data)
    });
    if !is_safe || !is_allowed {
        return Err(Reason::TooEarly);
    }
    append_field(b"early-data", b"1", head, request).map_err(reply::malformed)
}

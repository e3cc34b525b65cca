//! Requests that come in on a connection that was made for something else (RFC 9110 section 15.5.20).

use observe::Reason;
use routing::Resolution;

use crate::request::stop::Stop;

/// Refuses a request for a host of another listener than the one that the connection was made for: "If
/// another Listener does match the Host, the Gateway SHOULD return a 421" (Gateway API,
/// `Listener.hostname`). What no listener knows is not found.
#[cold]
pub(super) fn check(listener: u32, resolution: &Resolution<'_>) -> Result<(), Stop> {
    let host = match resolution {
        Resolution::Route(host, _, _)
        | Resolution::AddSlash(host, _)
        | Resolution::Undecided(host)
        | Resolution::UnknownPath(host) => host,
        Resolution::UnknownHost => return Ok(()),
    };
    let is_of_another = host.tls().listener.is_some_and(|other| other != listener);
    if is_of_another { Err(Reason::Misdirected.into()) } else { Ok(()) }
}

//! Requests before the handshake is complete: `forebay.io/early-data`.

use super::annotation::Effect::Supported;
use super::annotation::Scope::Ingress;
use super::annotation::annotations;
use crate::translate::value::{Applied, on_off, set};

annotations! {
    "early-data", Ingress, "off", Supported(|s, v| early_data(&mut s.host_tls.early_data, v)),
        "Takes safe requests of the host over HTTP/3 before the handshake is complete (0-RTT, RFC 8470): `on` or `off`.", Medium;
}

/// A value that cannot be read allows nothing.
fn early_data(allowed: &mut Option<bool>, text: &str) -> Applied {
    *allowed = Some(false);
    set(allowed, on_off(text).map(Some))
}

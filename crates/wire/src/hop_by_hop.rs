//! Which fields of a message an intermediary passes on (RFC 9110 section 7.6.1).

use crate::Known;
use crate::field::Field;
use crate::h1::Fields;

/// Whether a field speaks of one connection only. `Transfer-Encoding` does: a body that is passed on in chunks gets one of its own.
pub fn ends_here(known: Known) -> bool {
    matches!(
        known,
        Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::Te
            | Known::TransferEncoding
            | Known::Upgrade
    )
}

/// Whether the sender's `Connection` field lists a field, which ends here then. `Content-Length` passes whatever `Connection` says:
/// without it, the body that follows would be read as another message.
#[inline]
pub fn is_listed(head: &[u8], fields: &Fields, field: &Field) -> bool {
    fields.has_listed && field.known != Known::ContentLength && fields.is_listed(head, field.name(head))
}

/// Whether a trailer field may stand at the end of a body that is passed on: what frames or routes a message may not (RFC 9110
/// section 6.5.1), and every field that a proxy looks at does one or the other.
pub fn may_trail(name: &[u8]) -> bool {
    Known::of(name) == Known::Other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::parse_response;

    #[test]
    fn what_connection_lists_ends_here_but_a_length() {
        let head = b"HTTP/1.1 200 OK\r\nConnection: x-a, content-length\r\nX-A: 1\r\nX-B: 2\r\nContent-Length: 3\r\n\r\n";
        let response = parse_response(head, Fields::default()).unwrap().unwrap();
        let fields = &response.fields;
        let passing: Vec<_> = fields
            .iter()
            .filter(|field| !ends_here(field.known) && !is_listed(head, fields, field))
            .map(|field| field.name(head))
            .collect();
        assert_eq!(passing, [&b"X-B"[..], b"Content-Length"]);
    }

    #[test]
    fn trailers_that_frame_or_route_are_dropped() {
        assert!(may_trail(b"Grpc-Status") && may_trail(b"X-Checksum"));
        assert!(!may_trail(b"content-length") && !may_trail(b"Host") && !may_trail(b"X-Forwarded-For"));
    }
}

//! What must hold whatever the input is. The fuzz targets and the smoke test call the same functions.

use wire::h1::{
    Body, BodyDecoder, Decoded, Fields, RequestLimits, TargetForm, Version, parse_request, parse_response,
};
use wire::{host, path};

const LIMITS: RequestLimits = RequestLimits { line_bytes_max: 1024, head_bytes_max: 4096 };

/// A request head that is accepted says the same when it is read again alone, and leaves no doubt about its framing.
pub(crate) fn request_head(input: &[u8]) {
    let Ok(Some(request)) = parse_request(input, LIMITS, Fields::default()) else { return };
    let head = &input[..request.len];
    assert!(head.ends_with(b"\r\n\r\n") && head.len() <= LIMITS.head_bytes_max);
    assert_eq!(parse_request(head, LIMITS, Fields::default()).as_ref(), Ok(&Some(request.clone())));
    for end in [request.len - 1, request.len / 2, request.start] {
        let partial = parse_request(&head[..end], LIMITS, Fields::default());
        assert!(!matches!(partial, Ok(Some(_))), "complete before its end");
    }
    assert!(host::is_valid(&input[request.host.clone()]));
    assert!(!request.origin_target(head).is_empty());
    if request.form == TargetForm::Origin {
        assert!(request.origin_target(head).starts_with(b"/"));
    }
    fields(head, &request.fields);
    assert!(!(request.fields.chunked && request.version == Version::Http10));
    assert!(!(request.is_upgrade() && request.has_body()));
}

/// As for requests.
pub(crate) fn response_head(input: &[u8]) {
    let Ok(Some(response)) = parse_response(input, Fields::default()) else { return };
    let head = &input[..response.len];
    assert!(head.ends_with(b"\r\n\r\n") && (100..600).contains(&response.status));
    assert_eq!(parse_response(head, Fields::default()).as_ref(), Ok(&Some(response.clone())));
    assert!(!head[response.reason.clone()].iter().any(|b| b"\r\n".contains(b)));
    assert_eq!(response.body(true), Body::Empty);
    fields(head, &response.fields);
}

/// Lines follow each other without a gap, hold what they say, and frame the message in one way at most.
fn fields(head: &[u8], fields: &Fields) {
    let mut lines = fields.iter().map(wire::Field::line).peekable();
    while let Some(line) = lines.next() {
        assert!(head[line.clone()].ends_with(b"\r\n"));
        let next = lines.peek().map_or(head.len() - 2, |next| next.start);
        assert_eq!(line.end, next);
    }
    for field in fields {
        let (name, value) = (field.name(head), field.value(head));
        assert!(!name.is_empty() && !name.iter().any(|b| b" \t:\r\n".contains(b)));
        assert!(!value.iter().any(|b| b"\r\n\0".contains(b)));
        assert_eq!(value, value.trim_ascii());
    }
    let named =
        |name: &[u8]| fields.iter().filter(|field| field.name(head).eq_ignore_ascii_case(name)).count();
    let (lengths, codings) = (named(b"content-length"), named(b"transfer-encoding"));
    assert!(lengths + codings <= 1);
    assert_eq!((lengths == 1, codings == 1), (fields.content_length.is_some(), fields.chunked));
}

/// A chunked body is the same however it is cut, and says nothing that was not there.
pub(crate) fn chunked(input: &[u8]) {
    let whole = decode(input, input.len().max(1));
    assert_eq!(decode(input, 1), whole, "byte by byte");
    assert_eq!(decode(input, 7), whole, "in sevens");
    if let Some((content, used)) = whole {
        assert!(content.len() < used && used <= input.len());
        assert!(input[..used].ends_with(b"\r\n"));
        assert_eq!(decode(&input[..used], used), Some((content, used)), "what follows plays no part");
        assert_eq!(decode(&input[..used - 1], used), None, "no part of it can be missing");
    }
}

/// Content and length of a body that comes in pieces of `step` bytes; none if it is malformed or has no end.
fn decode(input: &[u8], step: usize) -> Option<(Vec<u8>, usize)> {
    let (mut decoder, mut content, mut at) = (BodyDecoder::new(Body::Chunked), Vec::new(), 0);
    for end in (step..input.len() + step).step_by(step) {
        let end = end.min(input.len());
        loop {
            match decoder.decode(&input[at..end]).ok()? {
                Decoded::Data { skip, len } => {
                    assert!(len > 0, "content that is none would be a last chunk when it is written");
                    content.extend_from_slice(&input[at + skip..at + skip + len]);
                    at += skip + len;
                }
                Decoded::More { skip } => {
                    at += skip;
                    break;
                }
                Decoded::End { skip, trailers } => {
                    assert!(trailers <= skip && decoder.is_done());
                    return Some((content, at + skip));
                }
            }
        }
    }
    None
}

/// A normal path is its own normal form, and never leaves its root.
pub(crate) fn path(input: &[u8]) {
    let before_query = path::of_target(input);
    assert!(input.starts_with(before_query));
    let Ok(normal) = path::normalize(before_query) else { return };
    // No head that is accepted has a target of another kind here, or a NUL in it.
    if !before_query.starts_with(b"/") || before_query.contains(&0) {
        return;
    }
    assert!(normal.starts_with(b"/") && !normal.windows(2).any(|two| two == b"//"));
    assert!(!normal.split(|&b| b == b'/').any(|element| element == b"." || element == b".."));
    assert!(!normal.contains(&0));
    if !normal.contains(&b'%') {
        assert_eq!(path::normalize(&normal).as_deref(), Ok(&*normal));
    }
}

use proptest::prelude::*;

use super::super::{Fields, RequestLimits, parse_request, parse_response};
use super::*;

const LIMITS: RequestLimits = RequestLimits { line_bytes_max: usize::MAX, head_bytes_max: usize::MAX };

/// Heads that are nearly right: pieces of real ones, and bytes that are at the edge of what may stand there.
fn heads(start_lines: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let odd = prop::sample::select(
        &[
            0_u8, b'\t', b'\n', b'\r', 0x1f, b' ', b'!', b'"', b':', b';', b'@', b'_', b'~', 0x7f, 0x80,
            0xc3, 0xff,
        ][..],
    );
    let text =
        prop_oneof![4 => "[ -~]{0,40}".prop_map(String::into_bytes), 1 => prop::collection::vec(odd, 0..20)];
    let name = prop_oneof![6 => "[A-Za-z-]{1,20}".prop_map(String::into_bytes), 1 => text.clone()];
    let line_end = prop_oneof![12 => Just(&b"\r\n"[..]), 1 => Just(&b"\n"[..]), 1 => Just(&b"\r"[..])];
    let field =
        (name, prop::sample::select(&[":", ": ", ":\t ", " :", ""][..]), text.clone(), line_end.clone());
    let line = field.prop_map(|(name, colon, value, end)| [&name, colon.as_bytes(), &value, end].concat());
    let start = prop_oneof![6 => prop::sample::select(start_lines).prop_map(|line| line.as_bytes().to_vec()), 1 => text];
    (start, line_end, prop::collection::vec(line, 0..5), any::<bool>()).prop_map(
        |(start, end, lines, is_whole)| {
            [&start[..], end, &lines.concat(), if is_whole { b"\r\n" } else { b"" }].concat()
        },
    )
}

fn has_bare_line_feed(bytes: &[u8]) -> bool {
    (0..bytes.len()).any(|at| bytes[at] == b'\n' && (at == 0 || bytes[at - 1] != b'\r'))
}

/// What another reader makes of the fields, byte for byte.
fn same_fields(head: &[u8], ours: &Fields, theirs: &[httparse::Header<'_>]) {
    let ours: Vec<_> = ours.iter().map(|field| (field.name(head), field.value(head))).collect();
    let theirs: Vec<_> = theirs.iter().map(|field| (field.name.as_bytes(), field.value)).collect();
    assert_eq!(ours, theirs);
}

/// Faults that httparse does not know: it has no opinion about framing, hosts and targets.
fn is_of_meaning(fault: Malformed) -> bool {
    use Malformed as M;
    matches!(
        fault,
        M::MissingHost
            | M::DuplicateHost
            | M::Host
            | M::ConflictingFraming
            | M::ContentLength
            | M::TransferEncoding
            | M::Expect
            | M::Target
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn requests_are_read_as_httparse_reads_them(
        head in heads(&["GET / HTTP/1.1", "POST /a?b HTTP/1.0", "GET  / HTTP/1.1", "GET /\u{e9} HTTP/1.1", "GET / HTTP/2.0", "GET /"]),
    ) {
        let mut slots = [httparse::EMPTY_HEADER; 64];
        let mut theirs = httparse::Request::new(&mut slots);
        let expected = theirs.parse(&head);
        match parse_request(&head, LIMITS, Fields::default()) {
            Ok(Some(ours)) => {
                prop_assert_eq!(expected, Ok(httparse::Status::Complete(ours.len)));
                prop_assert_eq!(Some(&head[ours.method.clone()]), theirs.method.map(str::as_bytes));
                prop_assert_eq!(Some(&head[ours.target.clone()]), theirs.path.map(str::as_bytes));
                same_fields(&head, &ours.fields, theirs.headers);
            }
            Ok(None) => prop_assert_eq!(expected, Ok(httparse::Status::Partial)),
            Err(fault) if is_of_meaning(fault) => {}
            Err(Malformed::BareLineFeed) => prop_assert!(has_bare_line_feed(&head)),
            // It takes a target for one that RFC 9112 has no form for.
            Err(Malformed::StartLine) if expected.is_ok() => prop_assert!(!head.starts_with(b"GET /")),
            Err(_) => prop_assert!(expected.is_err(), "{:?}", expected),
        }
    }

    #[test]
    fn responses_are_read_as_httparse_reads_them(
        head in heads(&["HTTP/1.1 200 OK", "HTTP/1.0 404", "HTTP/1.1 200 ", "HTTP/1.1 99 No", "HTTP/1.1 2000 No", "HTTP/1.1  200 No"]),
    ) {
        let mut slots = [httparse::EMPTY_HEADER; 64];
        let mut theirs = httparse::Response::new(&mut slots);
        let expected = theirs.parse(&head);
        match parse_response(&head, Fields::default()) {
            Ok(Some(ours)) => {
                prop_assert_eq!(expected, Ok(httparse::Status::Complete(ours.len)));
                prop_assert_eq!(Some(ours.status), theirs.code);
                same_fields(&head, &ours.fields, theirs.headers);
            }
            Ok(None) => prop_assert_eq!(expected, Ok(httparse::Status::Partial)),
            Err(fault) if is_of_meaning(fault) => {}
            Err(Malformed::BareLineFeed) => prop_assert!(has_bare_line_feed(&head)),
            Err(_) => prop_assert!(expected.is_err(), "{:?}", expected),
        }
    }
}

#[test]
fn a_start_line_that_has_not_all_come_is_waited_for() {
    let whole = "GET /path HTTP/1.1\r\nHost: a\r\n\r\n";
    for end in 0..whole.len() {
        let part = &whole.as_bytes()[..end];
        assert_eq!(parse_request(part, LIMITS, Fields::default()), Ok(None), "{:?}", &whole[..end]);
    }
}

#[test]
fn faults_have_their_own_names() {
    for (text, fault) in [
        ("GET / HTTP/1.2\r\n", Malformed::Version),
        ("GET / HTTP/1.1x\r\n", Malformed::StartLine),
        ("GET /\x01 HTTP/1.1\r\n", Malformed::StartLine),
        ("GET / HTTP/1.1\n", Malformed::BareLineFeed),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", Malformed::SpaceBeforeColon),
        ("GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", Malformed::ObsoleteFold),
        ("GET / HTTP/1.1\r\nHo(st: a\r\n\r\n", Malformed::FieldName),
        ("GET / HTTP/1.1\r\n: a\r\n\r\n", Malformed::FieldName),
        ("GET / HTTP/1.1\r\nHost: a\x00\r\n\r\n", Malformed::FieldValue),
        ("GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", Malformed::FieldValue),
        ("GET / HTTP/1.1\r\nHost: a\n\r\n", Malformed::BareLineFeed),
    ] {
        assert_eq!(parse_request(text.as_bytes(), LIMITS, Fields::default()), Err(fault), "{text:?}");
    }
}

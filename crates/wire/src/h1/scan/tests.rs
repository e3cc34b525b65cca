//! Unit tests of the scanner: each head is parsed as the plain parser does.

use proptest::prelude::*;

use super::super::{Fields, RequestLimits, parse_request, parse_response};
use super::*;

const LIMITS: RequestLimits = RequestLimits { line_bytes_max: usize::MAX, head_bytes_max: usize::MAX };

/// Nearly valid heads: pieces of real ones, and bytes just inside and outside the allowed range.
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

/// Compares our fields with those of httparse.
fn same_fields(head: &[u8], ours: &Fields, theirs: &[httparse::Header<'_>]) {
    let ours: Vec<_> = ours.iter().map(|field| (field.name(head), field.value(head))).collect();
    let theirs: Vec<_> = theirs.iter().map(|field| (field.name.as_bytes(), field.value)).collect();
    assert_eq!(ours, theirs);
}

/// Faults that httparse does not report: it does not check framing, hosts and targets.
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
            // httparse accepts targets that have none of the forms of RFC 9112.
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

/// Reference implementation of [`Scanner::fields`], byte by byte.
fn fields_by_bytes(bytes: &[u8]) -> Result<(Vec<Field>, usize), Stop> {
    let mut fields = Vec::new();
    let mut start = 0;
    loop {
        let line = &bytes[start..];
        if matches!(line.first(), None | Some(b'\r' | b'\n')) {
            return line_end_by_bytes(line, Malformed::StartLine).map(|()| (fields, start + 2));
        }
        let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
        let name = &line[..line.iter().take_while(|b| is_token(b)).count()];
        match line.get(name.len()) {
            None => return Err(Stop::Incomplete),
            Some(b':') if !name.is_empty() => {}
            Some(_) => return Err(name_fault(line).into()),
        }
        let after = &line[name.len() + 1..];
        let text = &after[..after.iter().take_while(|&&b| b == b'\t' || b >= b' ' && b != 0x7f).count()];
        line_end_by_bytes(&after[text.len()..], Malformed::FieldValue)?;
        let is_space = |b: &&u8| **b == b' ' || **b == b'\t';
        let trailing = text.iter().rev().take_while(is_space).count();
        let leading = if trailing == text.len() { 0 } else { text.iter().take_while(is_space).count() };
        let text_start = start + name.len() + 1;
        let end = text_start + text.len() + 2;
        fields.push(Field {
            start: start as u32,
            end: end as u32,
            name_len: name.len() as u16,
            known: Known::of(name),
            plain_name: name.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'-'),
            value_start: (text_start + leading) as u32,
            value_end: (text_start + text.len() - trailing) as u32,
        });
        start = end;
    }
}

fn line_end_by_bytes(rest: &[u8], otherwise: Malformed) -> Result<(), Stop> {
    match rest {
        [b'\r', b'\n', ..] => Ok(()),
        [] | [b'\r'] => Err(Stop::Incomplete),
        [b'\n', ..] => Err(Malformed::BareLineFeed.into()),
        _ => Err(otherwise.into()),
    }
}

/// Reference implementation of a word of the request line and the space behind it, byte by byte.
fn word_by_bytes(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> Result<usize, Stop> {
    let len = bytes.iter().take_while(|&&b| belongs(b)).count();
    match bytes.get(len) {
        None => Err(Stop::Incomplete),
        Some(b' ') if len > 0 => Ok(len),
        Some(_) => Err(Malformed::StartLine.into()),
    }
}

/// Reference implementation of [`Scanner::status`], byte by byte.
fn status_by_bytes(bytes: &[u8]) -> Result<u16, Stop> {
    if *bytes.first().ok_or(Stop::Incomplete)? != b' ' {
        return Err(Malformed::Version.into());
    }
    let mut status = 0;
    for at in 1..4 {
        let byte = *bytes.get(at).ok_or(Stop::Incomplete)?;
        if !byte.is_ascii_digit() {
            return Err(Malformed::StartLine.into());
        }
        status = status * 10 + u16::from(byte - b'0');
    }
    if (100..600).contains(&status) { Ok(status) } else { Err(Malformed::StartLine.into()) }
}

/// Reference implementation of [`Scanner::target`]: lengths of the target without and with its fragment.
fn target_by_bytes(bytes: &[u8]) -> Result<(usize, usize), Stop> {
    let len = word_by_bytes(bytes, |b| b > b' ' && b != 0x7f)?;
    let target = &bytes[..len];
    if std::str::from_utf8(target).is_err() {
        return Err(Malformed::StartLine.into());
    }
    Ok((target.iter().position(|&b| b == b'#').unwrap_or(len), len))
}

/// Mostly plain text, up to some blocks long.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let odd = prop::sample::select(&b"\0\t\n\r\x1f !\"#:;@_~\x7f\x80\xc3\xa9\xff"[..]);
    let plain = || "[a-zA-Z0-9-]{0,40}".prop_map(String::into_bytes);
    let broken =
        (plain(), prop::collection::vec(odd, 0..3), plain()).prop_map(|(a, b, c)| [a, b, c].concat());
    prop_oneof![4 => plain(), 2 => "[ -~]{0,40}".prop_map(String::into_bytes), 1 => broken]
}

/// Lines, most of which are valid fields.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let colon = prop::sample::select(&[": ", ": ", ": ", ": ", ":", ":\t ", ":  ", " :", ""][..]);
    let line_end = prop_oneof![
        20 => Just(&b"\r\n"[..]),
        2 => Just(&b" \r\n"[..]),
        1 => Just(&b"\n"[..]),
        1 => Just(&b"\r"[..]),
        1 => Just(&b"\r\r\n"[..]),
    ];
    let line = (text(), colon, text(), line_end)
        .prop_map(|(name, colon, value, end)| [&name, colon.as_bytes(), &value, end].concat());
    prop::collection::vec(line, 0..4).prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn fields_are_read_as_byte_by_byte(
        lines in lines(),
        end in prop::sample::select(&["\r\n", "\r\n", "\n", "\r", ""][..]),
        body in text(),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = [&lines, end.as_bytes(), &body].concat();
        for bytes in [&whole[..], &whole[..cut.index(whole.len() + 1)]] {
            let mut scanner = Scanner::new(bytes);
            let mut fields = Vec::new();
            let scanned = scanner.fields(|field| {
                fields.push(field);
                Ok(())
            });
            prop_assert_eq!(scanned.map(|()| (fields, scanner.position())), fields_by_bytes(bytes));
        }
    }

    #[test]
    fn a_status_is_read_as_byte_by_byte(text in "[ x\t]?[0-9x ]{0,4}", line_end in prop::sample::select(&["\r\n", ""][..])) {
        let bytes = [text.as_bytes(), line_end.as_bytes()].concat();
        let mut scanner = Scanner::new(&bytes);
        let status = scanner.status().map(|status| (status, scanner.position()));
        prop_assert_eq!(status, status_by_bytes(&bytes).map(|status| (status, 4)));
    }

    #[test]
    fn words_are_read_as_byte_by_byte(word in text(), rest in text(), has_space in any::<bool>()) {
        let bytes = [&word[..], if has_space { &b" "[..] } else { b"" }, &rest].concat();
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let mut scanner = Scanner::new(&bytes);
        let method = scanner.method().map(|range| (range, scanner.position()));
        prop_assert_eq!(method, word_by_bytes(&bytes, is_token).map(|len| (0..len, len + 1)));
        let mut scanner = Scanner::new(&bytes);
        let target = scanner.target().map(|range| (range, scanner.position()));
        prop_assert_eq!(target, target_by_bytes(&bytes).map(|(end, len)| (0..end, len + 1)));
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

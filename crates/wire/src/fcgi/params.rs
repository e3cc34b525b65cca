//! Parameters: pairs of names and values (section 3.4), and the conversion of a request's fields to
//! parameters (RFC 3875 section 4.1.18).

/// Fields about the client's connection, which is another than the application's. `Proxy` would be taken for
/// a setting of the application's environment (CVE-2016-5385).
const DROPPED: &[&[u8]] = &[b"connection", b"keep-alive", b"te", b"transfer-encoding", b"upgrade", b"proxy"];

/// Parameters without the prefix, made from a field in addition to its parameter with the prefix.
const CONTENT: &[(&[u8], &[u8])] =
    &[(b"CONTENT_TYPE", b"content-type"), (b"CONTENT_LENGTH", b"content-length")];

const PREFIX: &[u8] = b"HTTP_";

/// Appends a parameter. Neither its name nor its value may have 2 GiB.
pub fn write_pair(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    for len in [name.len(), value.len()] {
        match u8::try_from(len) {
            Ok(len) if len < 0x80 => out.push(len),
            _ => out.extend_from_slice(&(len as u32 | 0x8000_0000).to_be_bytes()),
        }
    }
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

/// The names and values of parameters, up to the first malformed one.
pub fn pairs(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let (name_len, value_len) = (split_len(&mut bytes)?, split_len(&mut bytes)?);
        let (name, rest) = bytes.split_at_checked(name_len)?;
        let (value, rest) = rest.split_at_checked(value_len)?;
        bytes = rest;
        Some((name, value))
    })
}

/// Takes a length from the front.
fn split_len(bytes: &mut &[u8]) -> Option<usize> {
    let (len, rest) = match bytes {
        [len @ ..0x80, rest @ ..] => (usize::from(*len), rest),
        [first, second, third, fourth, rest @ ..] => {
            (u32::from_be_bytes([first & 0x7f, *second, *third, *fourth]) as usize, rest)
        }
        _ => return None,
    };
    *bytes = rest;
    Some(len)
}

/// Appends the parameters that nginx makes of a request's fields to the parameters in `out`: `HTTP_` and the
/// field's name, with the values of equal names joined, and type and length of the content. A parameter in
/// `out` takes precedence; if the names of two fields differ but lead to the same parameter, the first field
/// takes precedence.
pub fn write_fields(head: &[u8], out: &mut Vec<u8>) {
    let given = out.clone();
    let is_given = |name: &[u8]| pairs(&given).any(|(given, _)| given == name);
    let fields: Vec<(&[u8], &[u8])> = head.split(|&b| b == b'\n').skip(1).map_while(split_field).collect();
    for (parameter, field) in CONTENT {
        let value = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(field));
        if !is_given(parameter) {
            write_pair(parameter, value.map_or(&[], |(_, value)| value), out);
        }
    }
    for (at, (name, _)) in fields.iter().enumerate() {
        let is_dropped = DROPPED.iter().any(|dropped| name.eq_ignore_ascii_case(dropped));
        let parameter = parameter(name);
        if is_dropped || fields[..at].iter().any(|(name, _)| is_as(name, &parameter)) || is_given(&parameter)
        {
            continue;
        }
        let separator: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
        let same = fields[at..].iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let values: Vec<&[u8]> = same.map(|(_, value)| *value).collect();
        write_pair(&parameter, &values.join(separator), out);
    }
}

fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', line)?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}

/// The parameter of a field.
fn parameter(name: &[u8]) -> Vec<u8> {
    PREFIX.iter().copied().chain(name.iter().map(|&byte| as_parameter(byte))).collect()
}

fn is_as(name: &[u8], parameter: &[u8]) -> bool {
    parameter[PREFIX.len()..].len() == name.len()
        && name
            .iter()
            .zip(&parameter[PREFIX.len()..])
            .all(|(&byte, &expected)| as_parameter(byte) == expected)
}

fn as_parameter(byte: u8) -> u8 {
    if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(bytes: &[u8]) -> Vec<String> {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        pairs(bytes).map(|(name, value)| format!("{}={}", text(name), text(value))).collect()
    }

    fn written(fields: &str, given: &[(&str, &str)]) -> Vec<String> {
        let mut out = Vec::new();
        for (name, value) in given {
            write_pair(name.as_bytes(), value.as_bytes(), &mut out);
        }
        write_fields(format!("GET / HTTP/1.1\r\n{fields}\r\n").as_bytes(), &mut out);
        text(&out)
    }

    #[test]
    fn long_names_and_values_have_lengths_of_four_bytes() {
        let (name, value) = ([b'n'; 127], [b'v'; 128]);
        let mut out = Vec::new();
        write_pair(&name, &value, &mut out);
        assert_eq!(out[..5], [127, 0x80, 0, 0, 128]);
        assert_eq!(out.len(), 5 + 127 + 128);
        out.clear();
        write_pair(b"A", b"bc", &mut out);
        assert_eq!(out, b"\x01\x02Abc");
    }

    #[test]
    fn fields_become_parameters() {
        assert_eq!(
            written("Host: a.test\r\nx-Forwarded-For:  10.0.0.1 \r\nContent-Type: a/b\r\nX-Empty:\r\n", &[]),
            [
                "CONTENT_TYPE=a/b",
                "CONTENT_LENGTH=",
                "HTTP_HOST=a.test",
                "HTTP_X_FORWARDED_FOR=10.0.0.1",
                "HTTP_CONTENT_TYPE=a/b",
                "HTTP_X_EMPTY=",
            ]
        );
    }

    #[test]
    fn values_of_one_name_are_joined() {
        let written = written("Cookie: a=b\r\nX-A: 1\r\ncookie: c=d\r\nX-a: 2\r\nContent-Length: 3\r\n", &[]);
        assert_eq!(written[1..4], ["CONTENT_LENGTH=3", "HTTP_COOKIE=a=b; c=d", "HTTP_X_A=1, 2"]);
    }

    /// Otherwise a client could replace a field of the proxy, by a name that leads to the same parameter.
    #[test]
    fn what_comes_first_stays() {
        let written =
            written("X-Real-IP: ours\r\nX_Real_IP: theirs\r\nX-A: theirs\r\n", &[("HTTP_X_A", "ours")]);
        assert_eq!(written, ["HTTP_X_A=ours", "CONTENT_TYPE=", "CONTENT_LENGTH=", "HTTP_X_REAL_IP=ours"]);
    }

    #[test]
    fn what_is_about_the_connection_is_left_out() {
        let fields =
            "Connection: upgrade\r\nUpgrade: x\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\nProxy: x\r\n";
        assert_eq!(written(fields, &[]), ["CONTENT_TYPE=", "CONTENT_LENGTH="]);
    }

    proptest! {
        #[test]
        fn pairs_come_out_as_they_went_in(
            all in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..200), prop::collection::vec(any::<u8>(), 0..200)), 0..6),
        ) {
            let mut out = Vec::new();
            for (name, value) in &all {
                write_pair(name, value, &mut out);
            }
            let read: Vec<_> = pairs(&out).map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
            prop_assert_eq!(read, all);
        }

        #[test]
        fn no_input_panics(head in prop::collection::vec(any::<u8>(), 0..200)) {
            pairs(&head).for_each(drop);
            write_fields(&head, &mut head.clone());
        }
    }
}

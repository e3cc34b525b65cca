use super::super::head::sample;
use super::*;

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

/// The stored fields of a head (RFC 9111 section 3.1).
#[test]
fn what_is_kept_of_a_head() {
    let lines = "Connection: a, b|a: 1|B: 2|c: 3|Keep-Alive: x|Proxy-Authenticate: x|Proxy-Authentication-Info: x|\
                 Proxy-Authorization: x|Proxy-Connection: x|TE: x|Transfer-Encoding: chunked|Upgrade: x|Age: 5|\
                 Cache-Control: no-cache=\"secret\"|Secret: x|Set-Cookie: a=c|Content-Encoding: gzip|Date: x";
    let (bytes, response) = sample::response(200, lines);
    let head = Head::of_response(&bytes, &response);
    let directives = Directives::of(head, &[]);
    let text = written(|out| stored::write_head(200, b"OK", head, &directives, Some(7), out));
    assert_eq!(
        text,
        "HTTP/1.1 200 OK\r\nc: 3\r\nCache-Control: no-cache=\"secret\"\r\nSet-Cookie: a=c\r\nContent-Encoding: gzip\r\n\
         Date: x\r\nContent-Length: 7\r\n\r\n"
    );
}

#[test]
fn a_length_is_written_once() {
    let (bytes, response) = sample::response(200, "Content-Length: 5|A: 1");
    let head = Head::of_response(&bytes, &response);
    let none = Directives::default();
    let with = |length| written(|out| stored::write_head(200, b"", head, &none, length, out));
    assert_eq!(with(Some(0)), "HTTP/1.1 200 \r\nA: 1\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(with(None), "HTTP/1.1 200 \r\nContent-Length: 5\r\nA: 1\r\n\r\n");
}

/// The fields that a 304 changes (RFC 9111 sections 3.2 and 4.3.4).
#[test]
fn what_a_304_changes() {
    let (old_bytes, old) = sample::response(
        200,
        "A: 1|A: 2|B: 1|C: 1|Cache-Control: max-age=1|Content-Length: 5|Content-Encoding: x|Content-Type: text/plain|\
         Content-MD5: x|Content-Range: x|ETag: \"a\"|Secret: 1",
    );
    let (new_bytes, new) = sample::response(
        304,
        "a: 3|B: 2|B: 3|Connection: C|C: 2|Cache-Control: max-age=9, private=\"secret\"|Content-Length: 10|Content-Encoding: y|\
         Content-Type: text/html|Content-MD5: y|Content-Range: y|ETag: \"b\"|Age: 3|D: 1|Secret: 2",
    );
    let update = Head::of_response(&new_bytes, &new);
    let directives = Directives::of(update, &[]);
    let stored = Head::of_response(&old_bytes, &old);
    let text = written(|out| stored::write_updated(200, b"OK", stored, update, &directives, out));
    assert_eq!(
        text,
        "HTTP/1.1 200 OK\r\nC: 1\r\nContent-Length: 5\r\nContent-Encoding: x\r\nContent-MD5: x\r\nContent-Range: x\r\nETag: \"a\"\r\n\
         a: 3\r\nB: 2\r\nB: 3\r\nCache-Control: max-age=9, private=\"secret\"\r\nContent-Type: text/html\r\nD: 1\r\n\r\n"
    );
}

/// The comparison of a HEAD's response (RFC 9111 section 4.3.5).
#[test]
fn a_head_speaks_of_the_same_content_or_not() {
    for (stored, head, same) in [
        ("ETag: \"a\"|Content-Length: 5", "ETag: \"a\"|Content-Length: 5", true),
        ("ETag: \"a\"|Content-Length: 5", "", true),
        ("ETag: \"a\"|Content-Length: 5", "Content-Length: 6", false),
        ("ETag: \"a\"", "ETag: \"b\"", false),
        ("Last-Modified: x", "Last-Modified: y", false),
        ("", "ETag: \"b\"", false),
    ] {
        let (old_bytes, old) = sample::response(200, stored);
        let (new_bytes, new) = sample::response(200, head);
        let is_same =
            stored::is_same_content(Head::of_response(&old_bytes, &old), Head::of_response(&new_bytes, &new));
        assert_eq!(is_same, same, "{stored} / {head}");
    }
}

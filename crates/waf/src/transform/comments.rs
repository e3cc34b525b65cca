//! Comments of SQL, C, shells and HTML.

use memchr::memmem;

use super::outcome::Outcome;

/// Replaces comments of C by a space each.
pub(super) fn replace(text: &[u8]) -> Outcome {
    let Some(mut begin) = memmem::find(text, b"/*") else { return Outcome::Same };
    let mut new = Vec::with_capacity(text.len());
    let mut from = 0;
    loop {
        new.extend_from_slice(&text[from..begin]);
        new.push(b' ');
        let Some(end) = memmem::find(&text[begin + 2..], b"*/") else { return Outcome::New(new) };
        from = begin + 2 + end + 2;
        let Some(next) = memmem::find(&text[from..], b"/*") else { break };
        begin = from + next;
    }
    new.extend_from_slice(&text[from..]);
    Outcome::New(new)
}

/// Removes comments. One without an end becomes a space, and so does nothing else.
///
/// ModSecurity copies the byte after a comment without a look at it, so that a second comment right after
/// the first one stays, and a NUL byte follows a comment at the end; this does not.
pub(super) fn remove(text: &[u8]) -> Outcome {
    let is_begin = |at: usize| {
        let rest = &text[at..];
        rest.starts_with(b"/*") || rest.starts_with(b"<!--") || rest.starts_with(b"--") || rest[0] == b'#'
    };
    let Some(first) = (0..text.len()).find(|&at| is_begin(at)) else { return Outcome::Same };
    let mut new = Vec::with_capacity(text.len());
    new.extend_from_slice(&text[..first]);
    let mut at = first;
    while at < text.len() {
        if !is_begin(at) {
            new.push(text[at]);
            at += 1;
            continue;
        }
        let rest = &text[at..];
        let begin = match rest[0] {
            b'/' => 2,
            b'<' => 4,
            _ => break,
        };
        let Some(end) = comment_end(&rest[begin..]) else {
            new.push(b' ');
            break;
        };
        at += begin + end;
    }
    Outcome::New(new)
}

/// The end of a comment: `*/` or `-->`, however it began.
fn comment_end(text: &[u8]) -> Option<usize> {
    (0..text.len()).find_map(|at| {
        let rest = &text[at..];
        if rest.starts_with(b"*/") {
            Some(at + 2)
        } else if rest.starts_with(b"-->") {
            Some(at + 3)
        } else {
            None
        }
    })
}

/// Removes the marks of comments and leaves their text.
pub(super) fn remove_marks(text: &[u8]) -> Outcome {
    const MARKS: [&[u8]; 6] = [b"/*", b"*/", b"<!--", b"-->", b"--", b"#"];
    let mark = |at: usize| {
        let rest = &text[at..];
        if !matches!(rest[0], b'/' | b'*' | b'<' | b'-' | b'#') {
            return None;
        }
        MARKS.iter().find(|mark| rest.starts_with(mark)).map(|mark| mark.len())
    };
    let Some(first) = (0..text.len()).find(|&at| mark(at).is_some()) else { return Outcome::Same };
    let mut new = Vec::with_capacity(text.len());
    new.extend_from_slice(&text[..first]);
    let mut at = first;
    while at < text.len() {
        if let Some(len) = mark(at) {
            at += len;
        } else {
            new.push(text[at]);
            at += 1;
        }
    }
    Outcome::New(new)
}

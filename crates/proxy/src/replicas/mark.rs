//! The mark by which replicas recognise each other's requests: the last line of a head. It has a message for
//! the other replica, the time, a unique number, and an authentication code over these and the head before
//! it, under a secret that only replicas have. So nobody else can change or extend a request, and a captured
//! one is accepted only a few times more.
//!
//! Never in here: sockets, a clock.

use aws_lc_rs::hmac::{Key, sign, verify};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use wire::h1::Request;

use super::used_marks::UsedMarks;
use crate::limits::{REPLICA_MARK_AGE_MAX, REPLICA_MARK_BYTES_MAX};

/// Name of the header that is the mark, and that responses to such requests have: a response without it is
/// no replica's.
pub(crate) const NAME: &str = "Forebay-Replica";

/// The same in lower case.
pub(crate) const NAME_LOWER: &str = "forebay-replica";

/// Length of the unique number, in bytes.
const NONCE_BYTES: usize = 8;

/// Length of the code, in bytes.
const CODE_BYTES: usize = 32;

/// Purpose of a request from another replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A client's request for an object whose home is here.
    Fetch,
    /// Orders to forget cached responses.
    Forget,
    /// A message about sessions of people who have signed in.
    SignIn,
    /// Reports about the health of endpoints.
    Checks,
    /// Stops of canaries.
    Stops,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Self::Fetch => 1,
            Self::Forget => 2,
            Self::SignIn => 3,
            Self::Checks => 4,
            Self::Stops => 5,
        }
    }

    fn of_byte(byte: u8) -> Option<Self> {
        [Self::Fetch, Self::Forget, Self::SignIn, Self::Checks, Self::Stops]
            .into_iter()
            .find(|kind| kind.byte() == byte)
    }
}

/// Adds a mark to a head, which ends with an empty line. The time is in seconds since 1970. None where the
/// message is too long for a mark.
pub(crate) fn add(head: &[u8], (kind, time): (Kind, u64), said: &[u8], secret: &Key) -> Option<Vec<u8>> {
    if said.len() > REPLICA_MARK_BYTES_MAX {
        return None;
    }
    let lines = head.strip_suffix(b"\r\n")?;
    let mut mark = vec![kind.byte()];
    mark.extend_from_slice(&time.to_be_bytes());
    let mut nonce = [0; NONCE_BYTES];
    aws_lc_rs::rand::fill(&mut nonce).ok()?;
    mark.extend_from_slice(&nonce);
    mark.extend_from_slice(said);
    let code = sign(secret, &[lines, &mark].concat());
    mark.extend_from_slice(code.as_ref());
    Some([lines, NAME.as_bytes(), b": ", STANDARD_NO_PAD.encode(mark).as_bytes(), b"\r\n\r\n"].concat())
}

/// The message of a request's mark, if the mark is a replica's. The buffer receives the message.
pub(crate) fn read<'a>(
    head: &[u8],
    request: &Request,
    secret: &Key,
    now: u64,
    used: &UsedMarks,
    memory: &'a mut Vec<u8>,
) -> Option<(Kind, &'a [u8])> {
    let is_mark = |field: &&wire::Field| field.name(head).eq_ignore_ascii_case(NAME.as_bytes());
    let field = request.fields.iter().find(is_mark)?;
    // Only the empty line follows the mark.
    if head.get(field.end as usize..)? != b"\r\n" {
        return None;
    }
    *memory = STANDARD_NO_PAD.decode(field.value(head)).ok()?;
    let (mark, code) = memory.split_at_checked(memory.len().checked_sub(CODE_BYTES)?)?;
    verify(secret, &[&head[..field.start as usize], mark].concat(), code).ok()?;
    let (&kind, rest) = mark.split_first()?;
    let (time, rest) = rest.split_first_chunk::<8>()?;
    let (_, said) = rest.split_first_chunk::<NONCE_BYTES>()?;
    let is_of_now = u64::from_be_bytes(*time).abs_diff(now) <= REPLICA_MARK_AGE_MAX.as_secs();
    let kind = Kind::of_byte(kind).filter(|_| is_of_now)?;
    let code = code.first_chunk().expect("it has 32 bytes");
    used.use_one(u128::from_be_bytes(*code), now).then_some((kind, said))
}

/// Appends one part of a message.
pub(super) fn part(part: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(part.len() as u32).to_be_bytes());
    out.extend_from_slice(part);
}

/// The parts of a message.
pub(super) fn parts(mut said: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    while !said.is_empty() {
        let (len, after) = said.split_first_chunk::<4>()?;
        let (part, after) = after.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        parts.push(part);
        said = after;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::hmac::HMAC_SHA256;
    use wire::h1::RequestLimits;

    use super::*;
    use crate::limits::REPLICA_MARK_USES_MAX;

    const HEAD: &[u8] = b"GET /a HTTP/1.1\r\nHost: web.test\r\nAccept: */*\r\n\r\n";
    const NOW: u64 = 1_800_000_000;
    const SAID: &[u8] = b"\x00key\xff";

    fn secret(text: &str) -> Key {
        Key::new(HMAC_SHA256, text.as_bytes())
    }

    /// Whether the code of a head's mark is correct.
    fn holds(head: &[u8], secret: &Key) -> bool {
        let mut request = Request::default();
        let limits = RequestLimits { line_bytes_max: 8 << 10, head_bytes_max: 32 << 10 };
        let is_read = matches!(request.parse(head, limits), Ok(true));
        is_read
            && read(head, &request, secret, NOW, &UsedMarks::default(), &mut Vec::new())
                == Some((Kind::Fetch, SAID))
    }

    #[test]
    fn only_who_has_the_secret_can_mark() {
        let marked = add(HEAD, (Kind::Fetch, NOW), SAID, &secret("of all")).unwrap();
        assert!(holds(&marked, &secret("of all")));
        assert!(!holds(&marked, &secret("another")));
        assert!(!holds(HEAD, &secret("of all")));
    }

    #[test]
    fn no_byte_can_be_changed_and_no_line_be_added() {
        let key = secret("of all");
        let marked = add(HEAD, (Kind::Fetch, NOW), SAID, &key).unwrap();
        for at in 0..marked.len() {
            let mut changed = marked.clone();
            changed[at] ^= 1;
            let is_name = |byte: u8| byte.eq_ignore_ascii_case(&marked[at]);
            assert!(is_name(changed[at]) || !holds(&changed, &key), "byte {at}");
        }
        let text = String::from_utf8(marked).unwrap();
        let line = text.lines().find(|line| line.starts_with(NAME)).unwrap();
        for changed in [
            text.replace("\r\n\r\n", "\r\nX-Forwarded-Host: evil.test\r\n\r\n"),
            text.replace("Host:", "X: y\r\nHost:"),
            text.replace("\r\n\r\n", &format!("\r\n{line}\r\n\r\n")),
            text.replace("GET", "HEAD"),
        ] {
            assert!(!holds(changed.as_bytes(), &key), "{changed}");
        }
    }

    #[test]
    fn what_is_sent_again_and_again_counts_no_more() {
        let (key, used) = (secret("of all"), UsedMarks::default());
        let holds = |head: &[u8]| {
            let mut request = Request::default();
            let limits = RequestLimits { line_bytes_max: 8 << 10, head_bytes_max: 32 << 10 };
            assert!(matches!(request.parse(head, limits), Ok(true)));
            read(head, &request, &key, NOW, &used, &mut Vec::new()).is_some()
        };
        let marked = || add(HEAD, (Kind::Fetch, NOW), SAID, &key).unwrap();
        let one = marked();
        assert!((0..REPLICA_MARK_USES_MAX).all(|_| holds(&one)));
        assert!(!holds(&one) && !holds(&one));
        assert!(holds(&marked()), "the same request is another one");
    }

    #[test]
    fn clocks_may_differ_by_so_much() {
        let (key, max) = (secret("of all"), REPLICA_MARK_AGE_MAX.as_secs());
        for (time, is_right) in
            [(NOW - max, true), (NOW + max, true), (NOW - max - 1, false), (NOW + max + 1, false), (0, false)]
        {
            let marked = add(HEAD, (Kind::Fetch, time), SAID, &key).unwrap();
            let mut request = Request::default();
            let limits = RequestLimits { line_bytes_max: 8 << 10, head_bytes_max: 32 << 10 };
            assert!(matches!(request.parse(&marked, limits), Ok(true)));
            let used = UsedMarks::default();
            assert_eq!(
                read(&marked, &request, &key, NOW, &used, &mut Vec::new()).is_some(),
                is_right,
                "{time}"
            );
        }
    }

    #[test]
    fn what_is_too_long_has_no_mark() {
        let long = vec![b'x'; REPLICA_MARK_BYTES_MAX + 1];
        assert_eq!(add(HEAD, (Kind::Fetch, NOW), &long, &secret("of all")), None);
    }
}

//! Invariants for any input. The fuzz targets and the smoke test call the same functions.

use std::time::Duration;

use deciders::grpc::Deframer;
use deciders::processing::{
    BodyMode, Conversation, Direction, Head, HeadField, HeadKind, Immediate, Modes, Parts, Received,
};
use deciders::proto::HeaderMap;
use deciders::proto::processing::ProcessingResponse;
use prost::Message;

const HEAD_BYTES_MAX: usize = 1000;
const TIME_MAX: Duration = Duration::from_secs(10);

/// A processor sends these bytes: the first one says which parts it was sent, the others are frames. No
/// answer counts that was not asked for, and no change makes a head malformed, or changes what is the
/// proxy's.
pub(crate) fn ext_proc(input: &[u8]) {
    let Some((&plan, frames)) = input.split_first() else { return };
    let parts = Parts { headers: true, body: BodyMode::Streamed, trailers: true };
    let modes = Modes { request: parts, response: parts };
    let mut conversation = Conversation::new(modes, plan & 4 != 0, Some(TIME_MAX));
    for (bit, direction) in [(1, Direction::Request), (2, Direction::Response)] {
        match (plan & bit != 0, plan & 8 != 0) {
            (true, false) => drop(conversation.headers(direction, HeaderMap::default(), false)),
            (true, true) => drop(conversation.body(direction, b"a".to_vec(), false)),
            (false, _) => {}
        }
    }
    let mut deframer = Deframer::new(input.len());
    deframer.push(frames);
    while let Ok(Some(message)) = deframer.next_message() {
        let Ok(message) = ProcessingResponse::decode(&*message) else { return };
        let before =
            [Direction::Request, Direction::Response].map(|direction| conversation.awaits(direction));
        match conversation.receive(message) {
            Err(_) => return,
            Ok(Received::Nothing) => {}
            Ok(Received::MoreTime(time)) => assert!(time <= TIME_MAX && before.contains(&true)),
            Ok(Received::Immediate(response)) => {
                assert!(conversation.is_over());
                if let Ok(immediate) = Immediate::of(response, HEAD_BYTES_MAX) {
                    assert!((200..600).contains(&immediate.status));
                    immediate.fields.iter().for_each(|(name, value)| check_field(name, value));
                }
            }
            Ok(Received::Answer(direction, change)) => {
                assert!(
                    before[usize::from(direction == Direction::Response)] && !conversation.awaits(direction)
                );
                let kind = if plan & 16 == 0 { HeadKind::Request } else { HeadKind::Response };
                let mut head = head();
                if head.apply(&change.headers, kind, HEAD_BYTES_MAX).is_ok() {
                    check(&head);
                }
            }
        }
    }
}

fn head() -> Head {
    let fields = [("Connection", "close"), ("Content-Length", "3"), ("X-A", "1")];
    Head {
        pseudo: vec![
            (":method", b"GET".to_vec()),
            (":authority", b"web.test".to_vec()),
            (":path", b"/".to_vec()),
            (":status", b"200".to_vec()),
        ],
        fields: fields.map(|(name, value)| HeadField::new(name, value.as_bytes())).to_vec(),
    }
}

fn check(head: &Head) {
    assert!(head.byte_len() <= HEAD_BYTES_MAX);
    assert_eq!((head.pseudo(":method"), head.pseudo(":authority")), (&b"GET"[..], &b"web.test"[..]));
    assert!(head.pseudo(":path").starts_with(b"/") && !head.pseudo(":path").contains(&b' '));
    assert_eq!(head.pseudo(":status").len(), 3);
    for (name, value) in [("connection", "close"), ("content-length", "3")] {
        let mut named = head.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        assert_eq!(named.next().map(|field| &*field.value), Some(value.as_bytes()));
        assert!(named.next().is_none());
    }
    head.fields.iter().for_each(|field| check_field(&field.name, &field.value));
}

fn check_field(name: &str, value: &[u8]) {
    assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':'));
    assert!(!value.iter().any(|byte| b"\r\n\0".contains(byte)));
}

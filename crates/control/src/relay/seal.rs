//! Authentication and encryption between replicas, under the secret that all of them share.
//!
//! A follower's greeting is bound to the relay's address, to the request and to the time. The relay answers
//! with a number of its own; from both numbers and the secret follows the key of this answer alone. The
//! answer is a row of frames, each with its length and sealed by AES-256-GCM with the number of the frame:
//! nobody without the secret can read, change, repeat or reorder them. An empty frame is the regular end.
//!
//! Never in here: sockets, a clock.

use std::net::IpAddr;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{Buf, Bytes, BytesMut};

/// Most seconds by which the clocks of two replicas may differ.
const AGE_S_MAX: u64 = 30;

/// Most bytes of a frame. A frame holds the lines that wait, or a page of a list.
const FRAME_BYTES_MAX: usize = 64 << 20;

const NUMBER_BYTES: usize = 16;
const CODE_BYTES: usize = 32;

/// A number that is used once.
type Number = [u8; NUMBER_BYTES];

/// The secret of all replicas. Never shown.
pub(super) struct Key(hmac::Key);

/// The frames of one answer, sealed one after the other.
pub(super) struct Sealer(Row);

/// The frames of one answer, opened one after the other.
pub(super) struct Opener(Row);

/// The key of an answer, and the number of its next frame.
struct Row {
    key: LessSafeKey,
    next: u64,
}

/// The system has no random numbers.
#[derive(Debug)]
pub(super) struct NoNumbers;

/// A frame that nobody with the secret has sent as the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forged;

impl Key {
    pub(super) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &[b"relay\0", secret].concat()))
    }

    /// A greeting for the replica with this address, as a header's value, and its number.
    pub(super) fn greet(&self, asked: IpAddr, target: &str, now: u64) -> Result<(String, Number), NoNumbers> {
        let number = number()?;
        let code = hmac::sign(&self.0, &greeting(asked, target, now, number));
        let text = STANDARD_NO_PAD.encode([&now.to_be_bytes(), &number[..], code.as_ref()].concat());
        Ok((text, number))
    }

    /// The number of a greeting for the replica with this address; none if it is no other replica's.
    pub(super) fn read_greeting(&self, text: &str, own: IpAddr, target: &str, now: u64) -> Option<Number> {
        let bytes = STANDARD_NO_PAD.decode(text).ok()?;
        let (time, rest) = bytes.split_first_chunk::<8>()?;
        let (number, code) = rest.split_first_chunk::<NUMBER_BYTES>()?;
        let time = u64::from_be_bytes(*time);
        let is_of_now = time.abs_diff(now) <= AGE_S_MAX && code.len() == CODE_BYTES;
        let is_right = hmac::verify(&self.0, &greeting(own, target, time, *number), code).is_ok();
        (is_of_now && is_right).then_some(*number)
    }

    /// Begins the answer to a greeting. The text is the value of a header of the answer.
    pub(super) fn answer(&self, greeted: Number) -> Result<(String, Sealer), NoNumbers> {
        let own = number()?;
        Ok((STANDARD_NO_PAD.encode(own), Sealer(self.row(greeted, own))))
    }

    /// Reads the beginning of an answer to one's own greeting.
    pub(super) fn open(&self, greeted: Number, text: &[u8]) -> Option<Opener> {
        let own = STANDARD_NO_PAD.decode(text).ok()?;
        Some(Opener(self.row(greeted, own.try_into().ok()?)))
    }

    fn row(&self, greeted: Number, answered: Number) -> Row {
        let key = hmac::sign(&self.0, &[b"row\0", &greeted[..], &answered[..]].concat());
        let key = UnboundKey::new(&AES_256_GCM, key.as_ref()).expect("the code has the length of a key");
        Row { key: LessSafeKey::new(key), next: 0 }
    }
}

fn number() -> Result<Number, NoNumbers> {
    let mut number = Number::default();
    aws_lc_rs::rand::fill(&mut number).map_err(|_| NoNumbers)?;
    Ok(number)
}

/// The text whose code a greeting has.
fn greeting(asked: IpAddr, target: &str, time: u64, number: Number) -> Vec<u8> {
    [format!("greeting\0{asked}\0{time}\0{target}\0").as_bytes(), &number].concat()
}

impl Row {
    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&self.next.to_be_bytes());
        self.next += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Sealer {
    /// The next frame.
    pub(super) fn seal(&mut self, text: &[u8]) -> Bytes {
        let tag_bytes = AES_256_GCM.tag_len();
        let mut frame = Vec::with_capacity(4 + text.len() + tag_bytes);
        frame.extend_from_slice(&((text.len() + tag_bytes) as u32).to_be_bytes());
        frame.extend_from_slice(text);
        let nonce = self.0.nonce();
        let tag = self.0.key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut frame[4..]);
        frame.extend_from_slice(tag.expect("a frame is shorter than what one key may seal").as_ref());
        frame.into()
    }
}

impl Opener {
    /// Takes the next frame out of the received bytes; none if more of it has to come first.
    pub(super) fn open(&mut self, received: &mut BytesMut) -> Result<Option<Bytes>, Forged> {
        let Some(length) = received.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(Forged);
        }
        if received.len() < 4 + length {
            return Ok(None);
        }
        received.advance(4);
        let mut frame = received.split_to(length);
        let nonce = self.0.nonce();
        let text = self.0.key.open_in_place(nonce, Aad::empty(), &mut frame).map_err(|_| Forged)?;
        let length = text.len();
        frame.truncate(length);
        Ok(Some(frame.freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;
    const TARGET: &str = "/apis?watch=true";

    fn one() -> IpAddr {
        IpAddr::from([10, 0, 0, 1])
    }

    fn pair(key: &Key) -> (Sealer, Opener) {
        let (_, number) = key.greet(one(), TARGET, NOW).unwrap();
        let (text, sealer) = key.answer(number).unwrap();
        (sealer, key.open(number, text.as_bytes()).unwrap())
    }

    #[test]
    fn a_greeting_counts_for_one_replica_one_request_and_a_while() {
        let (key, other) = (Key::new(b"secret"), Key::new(b"other"));
        let (text, number) = key.greet(one(), TARGET, NOW).unwrap();
        assert_eq!(key.read_greeting(&text, one(), TARGET, NOW + AGE_S_MAX), Some(number));
        assert_eq!(key.read_greeting(&text, one(), TARGET, NOW + AGE_S_MAX + 1), None);
        assert_eq!(key.read_greeting(&text, IpAddr::from([10, 0, 0, 2]), TARGET, NOW), None);
        assert_eq!(key.read_greeting(&text, one(), "/apis?watch=false", NOW), None);
        assert_eq!(other.read_greeting(&text, one(), TARGET, NOW), None);
        for wrong in ["", "x", &text[1..], &format!("{text}AAAA")] {
            assert_eq!(key.read_greeting(wrong, one(), TARGET, NOW), None, "{wrong}");
        }
    }

    #[test]
    fn frames_arrive_in_pieces_and_in_order() {
        let (mut sealer, mut opener) = pair(&Key::new(b"secret"));
        let long = vec![7; 100_000];
        let texts = [&b"one\n"[..], b"", &long];
        let sent: Vec<u8> = texts.iter().flat_map(|text| sealer.seal(text)).collect();
        let (mut received, mut opened) = (BytesMut::new(), Vec::new());
        for piece in sent.chunks(11) {
            received.extend_from_slice(piece);
            while let Some(text) = opener.open(&mut received).unwrap() {
                opened.push(text);
            }
        }
        assert_eq!(opened, texts);
        assert!(received.is_empty());
    }

    #[test]
    fn frames_that_were_changed_repeated_or_sealed_by_others_are_refused() {
        let key = Key::new(b"secret");
        let open = |opener: &mut Opener, frame: &[u8]| opener.open(&mut BytesMut::from(frame));
        let (mut sealer, mut opener) = pair(&key);
        let frame = sealer.seal(b"text");
        assert_eq!(open(&mut opener, &frame), Ok(Some(Bytes::from_static(b"text"))));
        assert_eq!(open(&mut opener, &frame), Err(Forged), "it was the first");
        for at in 4..frame.len() {
            let (mut sealer, mut opener) = pair(&key);
            let mut changed = sealer.seal(b"text").to_vec();
            changed[at] ^= 1;
            assert_eq!(open(&mut opener, &changed), Err(Forged), "byte {at}");
        }
        let (_, mut opener) = pair(&key);
        let (mut other, _) = pair(&Key::new(b"other"));
        assert_eq!(open(&mut opener, &other.seal(b"text")), Err(Forged));
        assert_eq!(open(&mut opener, &[0xff; 8]), Err(Forged), "longer than a frame may be");
    }
}

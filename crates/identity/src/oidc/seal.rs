//! Texts that only a Forebay with the same keys can make and read: AES-256-GCM with a key of its own for each
//! text, derived by HKDF-SHA-256 from a key of the Secret, the purpose, the host, the provider and 128 random
//! bits. No number of texts wears a key out, and a text for one host, provider or cookie is nothing for
//! another.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{CLOCK_DIFFERENCE_MAX, Seconds};

/// Fewest bytes of an entry of the Secret.
pub const KEY_BYTES_MIN: usize = 32;

/// Most entries of the Secret. A text names its key, so more of them cost no time, but are a mistake.
pub const KEYS_MAX: usize = 16;

/// Name of the entry that seals, whatever the others are called.
pub const CURRENT: &str = "current";

const VERSION: u8 = 1;
const KEY_ID_BYTES: usize = 4;
const SALT_BYTES: usize = 16;
const TIME_BYTES: usize = 8;
const TAG_BYTES: usize = 16;
const HEAD_BYTES: usize = 1 + KEY_ID_BYTES + SALT_BYTES + NONCE_LEN;

/// Characters that a text has in addition to those of its content, before the content is encoded.
pub const OVERHEAD: usize = HEAD_BYTES + TIME_BYTES + TAG_BYTES;

/// The purpose of a text, and where it counts: part of its key.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    /// The purpose of the text, such as `session`.
    pub purpose: &'static str,
    /// Identifies the provider and the client of it.
    pub provider: &'p [u8],
    /// The host that the client has asked for.
    pub host: &'p [u8],
    /// The name of the cookie.
    pub name: &'p str,
}

/// The keys of a Secret. The first one seals, all of them open.
#[derive(Clone)]
pub struct Keys {
    keys: Vec<Key>,
    digest: [u8; 32],
}

#[derive(Clone)]
struct Key {
    id: [u8; KEY_ID_BYTES],
    secret: Prk,
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Keys {
    /// The keys of a Secret's entries. The entry [`CURRENT`] seals; without it, the first by name.
    ///
    /// # Errors
    ///
    /// When there is no entry, there are too many, or one of them is too short.
    pub fn new<'e>(entries: impl Iterator<Item = (&'e str, Vec<u8>)>) -> Result<Self, String> {
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by_key(|(name, _)| (*name != CURRENT, *name));
        if entries.is_empty() {
            return Err("it has no entry, and so no key".to_owned());
        }
        if entries.len() > KEYS_MAX {
            return Err(format!("it has {} entries, of at most {KEYS_MAX}", entries.len()));
        }
        let salt = Salt::new(HKDF_SHA256, b"forebay openid connect 1");
        let mut keys: Vec<Key> = Vec::new();
        for (name, content) in entries {
            let content = content.trim_ascii_end();
            if content.len() < KEY_BYTES_MIN {
                let bytes = content.len();
                return Err(format!("key {name}: {bytes} bytes are too few: {KEY_BYTES_MIN} are needed"));
            }
            let secret = salt.extract(content);
            let id: [u8; 32] = expand(&secret, &[b"key id"]);
            keys.push(Key { id: id[..KEY_ID_BYTES].try_into().unwrap_or_default(), secret });
        }
        let digest = Salt::new(HKDF_SHA256, b"forebay openid connect keys");
        let all: Vec<u8> = keys.iter().flat_map(|key| expand(&key.secret, &[b"digest"])).collect();
        let digest = expand(&digest.extract(&all), &[]);
        Ok(Self { keys, digest })
    }

    /// A key that this process alone has.
    ///
    /// # Panics
    ///
    /// If the system has no randomness.
    pub fn random() -> Self {
        let mut key = [0; 2 * KEY_BYTES_MIN];
        SystemRandom::new().fill(&mut key).expect("the system has randomness");
        // White space at the end of a key would not count.
        let key = key.map(|byte| byte | 0x80).to_vec();
        Self::new([(CURRENT, key)].into_iter()).expect("it is long enough")
    }

    /// A digest of the keys and their order, which tells nothing about them.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Encrypts and signs a content. The result is in the alphabet of base64url.
    ///
    /// # Panics
    ///
    /// If the system has no randomness.
    pub fn seal(&self, place: Place<'_>, now: Seconds, content: &[u8]) -> String {
        let key = &self.keys[0];
        let mut bytes = Vec::with_capacity(OVERHEAD + content.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&key.id);
        let mut random = [0; SALT_BYTES + NONCE_LEN];
        SystemRandom::new().fill(&mut random).expect("the system has randomness");
        bytes.extend_from_slice(&random);
        let mut text = Vec::with_capacity(TIME_BYTES + content.len() + TAG_BYTES);
        text.extend_from_slice(&now.to_be_bytes());
        text.extend_from_slice(content);
        let (salt, nonce) = random.split_at(SALT_BYTES);
        let nonce = Nonce::try_assume_unique_for_key(nonce).expect("the nonce has its length");
        let aad = Aad::from(&bytes[..]);
        key.cipher(place, salt).seal_in_place_append_tag(nonce, aad, &mut text).expect("the text is short");
        bytes.extend_from_slice(&text);
        URL_SAFE_NO_PAD.encode(&bytes)
    }

    /// Opens what [`seal`](Self::seal) has made for the same place with one of these keys: the time of it,
    /// and the content. None for everything else, and for a time that is still to come.
    pub fn open(&self, place: Place<'_>, now: Seconds, text: &[u8]) -> Option<(Seconds, Vec<u8>)> {
        let mut bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        if bytes.len() < OVERHEAD || bytes[0] != VERSION {
            return None;
        }
        let (head, sealed) = bytes.split_at_mut(HEAD_BYTES);
        let key = self.keys.iter().find(|key| key.id == head[1..=KEY_ID_BYTES])?;
        let (salt, nonce) = head[1 + KEY_ID_BYTES..].split_at(SALT_BYTES);
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let text = key.cipher(place, salt).open_in_place(nonce, Aad::from(&head[..]), sealed).ok()?;
        let (time, content) = text.split_first_chunk::<TIME_BYTES>()?;
        let time = Seconds::from_be_bytes(*time);
        (time <= now.saturating_add(CLOCK_DIFFERENCE_MAX)).then(|| (time, content.to_vec()))
    }
}

impl Key {
    fn cipher(&self, place: Place<'_>, salt: &[u8]) -> LessSafeKey {
        let Place { purpose, provider, host, name } = place;
        let parts = [purpose.as_bytes(), provider, host, name.as_bytes(), salt];
        let lengths = parts.map(|part| (part.len() as u64).to_be_bytes());
        let mut info: Vec<&[u8]> = Vec::with_capacity(2 * parts.len());
        for (length, part) in lengths.iter().zip(parts) {
            info.push(length);
            info.push(part);
        }
        let bytes: [u8; 32] = expand(&self.secret, &info);
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &bytes).expect("the key has its length"))
    }
}

fn expand(secret: &Prk, info: &[&[u8]]) -> [u8; 32] {
    let mut bytes = [0; 32];
    let expanded = secret.expand(info, Length(bytes.len()));
    expanded.and_then(|okm| okm.fill(&mut bytes)).expect("32 bytes can be derived");
    bytes
}

impl PartialEq for Keys {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Keys {}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.keys.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(entries: &[(&str, u8)]) -> Keys {
        Keys::new(entries.iter().map(|&(name, byte)| (name, vec![byte; 32]))).unwrap()
    }

    const HERE: Place<'_> = Place { purpose: "session", provider: b"p", host: b"a.test", name: "c" };

    #[test]
    fn a_text_opens_at_its_own_place_only() {
        let keys = keys(&[("a", b'1')]);
        let text = keys.seal(HERE, 1000, b"content");
        assert_eq!(keys.open(HERE, 1000, text.as_bytes()), Some((1000, b"content".to_vec())));
        for other in [
            Place { purpose: "login", ..HERE },
            Place { provider: b"q", ..HERE },
            Place { host: b"b.test", ..HERE },
            Place { name: "d", ..HERE },
            // The same bytes in other parts.
            Place { provider: b"pa", host: b".test", ..HERE },
        ] {
            assert_eq!(keys.open(other, 1000, text.as_bytes()), None, "{other:?}");
        }
        assert_ne!(text, keys.seal(HERE, 1000, b"content"), "each text has a key of its own");
    }

    #[test]
    fn what_was_changed_or_cut_does_not_open() {
        let keys = keys(&[("a", b'1')]);
        let text = keys.seal(HERE, 1000, b"content");
        for at in 0..text.len() {
            let mut forged = text.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'Q' } else { b'A' };
            assert_eq!(keys.open(HERE, 1000, &forged), None, "{at}");
            assert_eq!(keys.open(HERE, 1000, &text.as_bytes()[..at]), None, "{at}");
        }
        assert_eq!(keys.open(HERE, 1000, format!("{text}A").as_bytes()), None);
        assert_eq!(keys.open(HERE, 1000, b""), None);
    }

    #[test]
    fn keys_are_rotated_without_a_text_being_lost() {
        let old = keys(&[("a", b'1')]);
        let both = keys(&[("a", b'1'), (CURRENT, b'2')]);
        let new = keys(&[("a", b'2')]);
        let (from_old, from_both) = (old.seal(HERE, 1, b"x"), both.seal(HERE, 1, b"x"));
        assert!(both.open(HERE, 1, from_old.as_bytes()).is_some());
        assert!(new.open(HERE, 1, from_both.as_bytes()).is_some(), "`current` seals");
        assert!(new.open(HERE, 1, from_old.as_bytes()).is_none(), "the old key is gone");
        assert!(old.open(HERE, 1, from_both.as_bytes()).is_none());
        assert!(old != both && old == keys(&[("other name", b'1')]));
    }

    #[test]
    fn a_text_from_the_future_does_not_open() {
        let keys = keys(&[("a", b'1')]);
        let text = keys.seal(HERE, 10_000, b"");
        assert!(keys.open(HERE, 10_000 - CLOCK_DIFFERENCE_MAX, text.as_bytes()).is_some());
        assert!(keys.open(HERE, 9_999 - CLOCK_DIFFERENCE_MAX, text.as_bytes()).is_none());
    }

    #[test]
    fn keys_have_a_length() {
        let of = |bytes: &[u8]| Keys::new([("a", bytes.to_vec())].into_iter());
        assert!(of(&[b'x'; 31]).is_err());
        assert!(of(&[b"\n".repeat(40), b"x".to_vec(), b"\n".repeat(40)].concat()).is_ok());
        assert!(of(&[&[b'x'; 31][..], b"\n"].concat()).is_err(), "an editor's end of line is no key");
        assert!(Keys::new(std::iter::empty()).is_err());
        assert!(!format!("{:?}", of(&[b'x'; 32]).unwrap()).contains('x'));
    }
}

//! The protection of one direction: a key, its initialization vector, and the number of the next record.

use std::ops::Range;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use rustls::{ConnectionTrafficSecrets, ProtocolVersion};

use super::format::{CONTENT_BYTES_MAX, Fault, HEADER_BYTES, alert, kind};

/// The key for the records of one direction (RFC 8446 section 5.2; for TLS 1.2 RFC 5288 section 3 and RFC
/// 7905 section 2).
pub(super) struct Protection {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    /// The number of the next record, from which its nonce is made.
    number: u64,
    form: Form,
}

/// The form of a protected record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The type of the content is encrypted as well.
    Tls13,
    /// A part of the nonce is sent before the ciphertext.
    Tls12Explicit,
    Tls12,
}

/// The part of the nonce that a record of TLS 1.2 with AES-GCM carries (RFC 5288 section 3).
const EXPLICIT_BYTES: usize = 8;
/// The version that all records name (RFC 8446 section 5.1).
const LEGACY_VERSION: [u8; 2] = [3, 3];
const TAG_BYTES: usize = 16;

impl Protection {
    /// None for secrets of a kind that this library does not know.
    pub(super) fn new(
        version: ProtocolVersion,
        number: u64,
        secrets: &ConnectionTrafficSecrets,
    ) -> Option<Self> {
        let (algorithm, key, iv): (&'static Algorithm, _, _) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return None,
        };
        let form = if version == ProtocolVersion::TLSv1_3 {
            Form::Tls13
        } else if *algorithm == CHACHA20_POLY1305 {
            Form::Tls12
        } else {
            Form::Tls12Explicit
        };
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).ok()?);
        Some(Self { key, iv: iv.as_ref().try_into().ok()?, number, form })
    }

    /// The number of records that were protected with this key.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Appends a record with this content, which is at most [`CONTENT_BYTES_MAX`].
    pub(super) fn seal(&mut self, kind: u8, content: &[&[u8]], out: &mut Vec<u8>) -> Result<(), Fault> {
        let len: usize = content.iter().map(|part| part.len()).sum();
        debug_assert!(len <= CONTENT_BYTES_MAX, "a record has a largest size");
        let nonce = self.nonce();
        let (explicit, inner) = match self.form {
            Form::Tls13 => (0, 1),
            Form::Tls12Explicit => (EXPLICIT_BYTES, 0),
            Form::Tls12 => (0, 0),
        };
        let body = explicit + len + inner + TAG_BYTES;
        let outer = if self.form == Form::Tls13 { kind::DATA } else { kind };
        let header = header(outer, body);
        out.reserve(HEADER_BYTES + body);
        out.extend_from_slice(&header);
        out.extend_from_slice(&nonce[NONCE_LEN - explicit..]);
        let start = out.len();
        for part in content {
            out.extend_from_slice(part);
        }
        if self.form == Form::Tls13 {
            out.push(kind);
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let content = &mut out[start..];
        let sealed = if self.form == Form::Tls13 {
            self.key.seal_in_place_separate_tag(nonce, Aad::from(header), content)
        } else {
            self.key.seal_in_place_separate_tag(nonce, Aad::from(self.aad(header, len)), content)
        };
        let tag = sealed.map_err(|_| Fault::new(alert::INTERNAL_ERROR, "a record cannot be encrypted"))?;
        out.extend_from_slice(tag.as_ref());
        self.number += 1;
        Ok(())
    }

    /// Decrypts a whole record where it lies. Returns the type of its content, and where in the record the
    /// content is.
    pub(super) fn open(&mut self, record: &mut [u8]) -> Result<(u8, Range<usize>), Fault> {
        let (header, body) = record.split_first_chunk_mut::<HEADER_BYTES>().ok_or(Fault::DECODE)?;
        let outer = header[0];
        let mut nonce = self.nonce();
        let explicit = if self.form == Form::Tls12Explicit { EXPLICIT_BYTES } else { 0 };
        if body.len() < explicit + TAG_BYTES {
            return Err(Fault::DECODE);
        }
        let (sent, body) = body.split_at_mut(explicit);
        nonce[NONCE_LEN - explicit..].copy_from_slice(sent);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = match self.form {
            // Nothing but ciphertext comes here: its outer type is always that of data.
            Form::Tls13 if outer != kind::DATA => return Err(Fault::UNEXPECTED),
            Form::Tls13 => self.key.open_in_place(nonce, Aad::from(*header), body),
            _ => {
                let aad = self.aad(*header, body.len() - TAG_BYTES);
                self.key.open_in_place(nonce, Aad::from(aad), body)
            }
        };
        let content = opened.map_err(|_| Fault::new(alert::BAD_RECORD_MAC, "a record does not decrypt"))?;
        let (kind, len) = match self.form {
            Form::Tls13 => inner_content(content)?,
            _ => (outer, content.len()),
        };
        if len > CONTENT_BYTES_MAX {
            return Err(Fault::OVERFLOW);
        }
        self.number += 1;
        let start = HEADER_BYTES + explicit;
        Ok((kind, start..start + len))
    }

    fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, number) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.number.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }

    /// The authenticated data of TLS 1.2: the header, with the length of the content (RFC 5246 section
    /// 6.2.3.3).
    fn aad(&self, header: [u8; HEADER_BYTES], len: usize) -> [u8; 8 + HEADER_BYTES] {
        let mut aad = [0; 8 + HEADER_BYTES];
        aad[..8].copy_from_slice(&self.number.to_be_bytes());
        aad[8..].copy_from_slice(&header);
        aad[8 + 3..].copy_from_slice(&length(len));
        aad
    }
}

fn header(kind: u8, len: usize) -> [u8; HEADER_BYTES] {
    let ([major, minor], [high, low]) = (LEGACY_VERSION, length(len));
    [kind, major, minor, high, low]
}

#[expect(clippy::cast_possible_truncation, reason = "a record is shorter than 64 KiB")]
fn length(len: usize) -> [u8; 2] {
    (len as u16).to_be_bytes()
}

/// The type at the end of the plaintext, before the zeros of its padding (RFC 8446 section 5.4), and the
/// length of the content before it.
fn inner_content(plaintext: &[u8]) -> Result<(u8, usize), Fault> {
    let at = plaintext.iter().rposition(|&byte| byte != 0).ok_or(Fault::UNEXPECTED)?;
    Ok((plaintext[at], at))
}

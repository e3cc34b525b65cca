//! Password hashes in the forms of `htpasswd` and nginx.
//!
//! Must not be in here: users, and the thread that computes.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use sha_crypt::{Params, sha256_crypt, sha512_crypt};

use crate::limits::{BCRYPT_COST_MAX, SHA_CRYPT_ROUNDS_MAX};

/// The alphabet of crypt's variant of base64.
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Whether a hash takes so long to verify that it must not be computed on a worker.
pub(crate) fn is_costly(hash: &str) -> bool {
    !hash.starts_with('{')
}

/// Whether a password matches a hash. A hash of an unknown form matches none.
pub(crate) fn matches(password: &[u8], hash: &str) -> bool {
    if let Some(plain) = hash.strip_prefix("{PLAIN}") {
        equals(password, plain.as_bytes())
    } else if let Some(sha) = hash.strip_prefix("{SHA}") {
        STANDARD
            .decode(sha)
            .is_ok_and(|sha| equals(digest(&SHA1_FOR_LEGACY_USE_ONLY, password).as_ref(), &sha))
    } else if let Some(salted) = hash.strip_prefix("{SSHA}") {
        STANDARD.decode(salted).is_ok_and(|salted| is_salted(password, &salted))
    } else if hash.starts_with("$2") {
        is_bcrypt(password, hash)
    } else {
        is_crypt(password, hash).unwrap_or(false)
    }
}

/// Compares secrets in constant time.
pub(crate) fn equals(a: &[u8], b: &[u8]) -> bool {
    verify_slices_are_equal(a, b).is_ok()
}

/// Whether a password matches `{SSHA}`: the SHA-1 of the password and a salt, followed by the salt.
fn is_salted(password: &[u8], salted: &[u8]) -> bool {
    let Some((sha, salt)) = salted.split_at_checked(SHA1_OUTPUT_LEN) else { return false };
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    context.update(password);
    context.update(salt);
    equals(context.finish().as_ref(), sha)
}

fn is_bcrypt(password: &[u8], hash: &str) -> bool {
    let cost = hash.split('$').nth(2).and_then(|cost| cost.parse::<u32>().ok());
    cost.is_some_and(|cost| cost <= BCRYPT_COST_MAX) && bcrypt::verify(password, hash).unwrap_or(false)
}

/// Whether a password matches `$ID$[rounds=N$]SALT$HASH`; none where the hash has another form.
fn is_crypt(password: &[u8], hash: &str) -> Option<bool> {
    let (id, rest) = hash.strip_prefix('$')?.split_once('$')?;
    let (rounds, rest) = match rest.strip_prefix("rounds=") {
        Some(rest) => {
            let (rounds, rest) = rest.split_once('$')?;
            (rounds.parse::<u32>().ok()?.max(Params::ROUNDS_MIN), rest)
        }
        None => (Params::RECOMMENDED_ROUNDS, rest),
    };
    let (salt, expected) = rest.split_once('$')?;
    if rounds > SHA_CRYPT_ROUNDS_MAX {
        return None;
    }
    let sha_salt = salt.get(..16).unwrap_or(salt).as_bytes();
    let params = Params::new(rounds).ok()?;
    let made = match id {
        "1" | "apr1" => md5_crypt(password, id, salt.get(..8).unwrap_or(salt)),
        "5" => sha256_base64(&sha256_crypt(password, sha_salt, params)),
        "6" => sha512_base64(&sha512_crypt(password, sha_salt, params)),
        _ => return None,
    };
    Some(equals(made.as_bytes(), expected.as_bytes()))
}

/// The hash of `$1$`, and of Apache's `$apr1$`, which differs in its name only (Poul-Henning Kamp,
/// `md5crypt`).
fn md5_crypt(password: &[u8], id: &str, salt: &str) -> String {
    let salt = salt.as_bytes();
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut outer = Md5::new().chain_update(password).chain_update(format!("${id}$")).chain_update(salt);
    for at in (0..password.len()).step_by(16) {
        outer.update(&inner[..16.min(password.len() - at)]);
    }
    let mut bits = password.len();
    while bits > 0 {
        outer.update(if bits & 1 == 1 { &[0] } else { &password[..1] });
        bits >>= 1;
    }
    let mut hash = outer.finalize();
    for round in 0..1000 {
        let (first, last): (&[u8], &[u8]) =
            if round % 2 == 1 { (password, &hash) } else { (&hash, password) };
        let mut next = Md5::new().chain_update(first);
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        hash = next.chain_update(last).finalize();
    }
    let mut text = String::with_capacity(22);
    for [a, b, c] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        push_base64(&mut text, u32::from_be_bytes([0, hash[a], hash[b], hash[c]]), 4);
    }
    push_base64(&mut text, u32::from(hash[11]), 2);
    text
}

/// The order in which `$5$` writes the bytes of a SHA-256 (Ulrich Drepper, `SHA-crypt.txt`, step 22).
fn sha256_base64(hash: &[u8; 32]) -> String {
    let mut text = String::with_capacity(43);
    for at in 0..10 {
        let mut bytes = [hash[at], hash[at + 10], hash[at + 20]];
        bytes.rotate_right(at % 3);
        push_base64(&mut text, u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]), 4);
    }
    push_base64(&mut text, u32::from_be_bytes([0, 0, hash[31], hash[30]]), 3);
    text
}

/// The order in which `$6$` writes the bytes of a SHA-512 (Ulrich Drepper, `SHA-crypt.txt`, step 22).
fn sha512_base64(hash: &[u8; 64]) -> String {
    let mut text = String::with_capacity(86);
    for at in 0..21 {
        let mut bytes = [hash[at], hash[at + 21], hash[at + 42]];
        bytes.rotate_left(at % 3);
        push_base64(&mut text, u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]), 4);
    }
    push_base64(&mut text, u32::from(hash[63]), 2);
    text
}

fn push_base64(text: &mut String, mut bits: u32, chars: usize) {
    for _ in 0..chars {
        text.push(char::from(ALPHABET[(bits & 63) as usize]));
        bits >>= 6;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `openssl passwd` and by Python's `hashlib`, and by this bcrypt itself at the lowest cost.
    #[test]
    fn hashes_of_all_forms() {
        let bcrypt = bcrypt::hash("secret", 4).unwrap();
        let php = bcrypt.replacen("$2b$", "$2y$", 1);
        for hash in [
            "$1$saltsalt$9xy1btjgzLYfb7hivXtC//",
            "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0",
            "$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA",
            "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1",
            "{PLAIN}secret",
            "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
            "{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0",
            &bcrypt,
            &php,
        ] {
            assert!(matches(b"secret", hash), "{hash}");
            for other in [&b"Secret"[..], b"secret ", b"", b"a\0b"] {
                assert!(!matches(other, hash), "{hash}");
            }
        }
    }

    #[test]
    fn an_unknown_form_matches_no_password() {
        let costly = "$2y$31$abcdefghijklmnopqrstuuQ9yV1T5cZ7x0Dd1Wm5r0QmJm4r8C9Lq";
        for hash in ["", "secret", "$", "$1$", "$9$a$b", "{SHA}!", "{SSHA}c2FsdA==", "{MD5}x", "$2y$", costly]
        {
            assert!(!matches(b"secret", hash), "{hash}");
        }
        assert!(!matches(b"secret", "$6$rounds=999999999$saltsalt$x"), "nor one that takes minutes");
    }
}

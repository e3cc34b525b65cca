//! Digests, as bytes.

use md5::{Digest as _, Md5};
use sha1::Sha1;

use super::outcome::Outcome;

pub(super) fn md5(text: &[u8]) -> Outcome {
    Outcome::New(Md5::digest(text).to_vec())
}

pub(super) fn sha1(text: &[u8]) -> Outcome {
    Outcome::New(Sha1::digest(text).to_vec())
}

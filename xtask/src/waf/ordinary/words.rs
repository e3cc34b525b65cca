//! The words of ordinary requests.
//!
//! Must not be in here: requests.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::Deserialize;

/// The words of requests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Words {
    pub(super) people: Vec<String>,
    pub(super) places: Vec<String>,
    pub(super) sentences: Vec<String>,
    pub(super) markdown: Vec<String>,
    pub(super) searches: Vec<String>,
    pub(super) passwords: Vec<String>,
    pub(super) fields: Vec<String>,
    pub(super) values: Vec<String>,
    pub(super) paths: Vec<String>,
    pub(super) files: Vec<String>,
    pub(super) agents: Vec<String>,
    pub(super) languages: Vec<String>,
    pub(super) cookies: Vec<String>,
    pub(super) tracking: Vec<String>,
    pub(super) graphql: Vec<String>,
}

/// The words of `testing/waf/ordinary.yaml`.
pub(super) static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let text = include_str!("../../../../testing/waf/ordinary.yaml");
    serde_saphyr::from_str(text).expect("a test reads the file")
});

/// Percent-encoding as browsers have it in forms.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push('+'),
            b'*' | b'-' | b'.' | b'_' => encoded.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

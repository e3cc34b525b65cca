//! Exchanges as lines of JSON, for `testing/waf/oracle.py`, which gives them to libmodsecurity.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::backend::Response;
use super::message::{Header, Message};
use super::ordinary;
use super::suite::Test;
use super::trial::{exchange, is_refused};

/// An exchange; bytes are in Base64.
#[derive(Serialize)]
struct Line {
    name: String,
    method: String,
    target: String,
    version: String,
    headers: Vec<[String; 2]>,
    body: String,
    status: u16,
    response_headers: Vec<[String; 2]>,
    response_body: String,
    rules: Vec<u64>,
}

/// Writes the exchanges of all tests whose requests the proxy takes, and of so many ordinary requests.
pub(super) fn write(path: &Path, tests: &[Test], count: u64, rules: &Arc<::waf::Rules>) -> Result<()> {
    let mut file = BufWriter::new(File::create(path).with_context(|| path.display().to_string())?);
    let mut write = |name: String, message: &Message| -> Result<()> {
        serde_json::to_writer(&mut file, &Line::new(name, message, rules))?;
        Ok(file.write_all(b"\n")?)
    };
    for test in tests {
        for (number, stage) in test.stages.iter().enumerate() {
            let message = Message::new(&stage.input)?;
            if !is_refused(&message) {
                write(format!("{}/{number}", test.id), &message)?;
            }
        }
    }
    for seed in 0..count {
        write(format!("ordinary/{seed}"), &ordinary::message(seed))?;
    }
    Ok(())
}

// === impl Line ===

impl Line {
    fn new(name: String, message: &Message, rules: &Arc<::waf::Rules>) -> Self {
        let response = Response::to(message);
        let mut matched = exchange(message, &response, rules).rules;
        matched.sort_unstable();
        matched.dedup();
        let encode = |bytes: &[u8]| STANDARD.encode(bytes);
        let lines = |headers: &[Header]| {
            headers.iter().map(|header| [encode(&header.name), encode(&header.value)]).collect()
        };
        Self {
            name,
            method: encode(&message.method),
            target: encode(&message.target),
            version: encode(message.protocol().as_bytes()),
            headers: lines(&message.headers),
            body: encode(&message.body),
            status: response.status,
            response_headers: lines(&response.headers),
            response_body: encode(&response.body),
            rules: matched,
        }
    }
}

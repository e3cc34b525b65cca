//! The tests, in the YAML form of go-ftw (`coreruleset/ftw-tests-schema`).

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use walkdir::WalkDir;

/// A test with all of its stages.
pub(super) struct Test {
    /// The rule and the number of the test, such as `942100-3`.
    pub(super) id: String,
    pub(super) description: String,
    pub(super) stages: Vec<Stage>,
}

/// A request with what is expected of it.
#[derive(Deserialize)]
pub(super) struct Stage {
    pub(super) input: Input,
    pub(super) output: Output,
}

/// A request, or what it is made from.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    #[serde(rename = "dest_addr")]
    _dest_addr: Option<String>,
    #[serde(rename = "port")]
    _port: Option<u16>,
    pub(super) method: Option<String>,
    pub(super) uri: Option<String>,
    pub(super) version: Option<String>,
    #[serde(default)]
    pub(super) headers: Headers,
    pub(super) data: Option<String>,
    /// The whole request in Base64.
    pub(super) encoded_request: Option<Encoded>,
    /// Whether `Connection`, `Content-Type` and `Content-Length` are added.
    pub(super) autocomplete_headers: Option<bool>,
}

/// The expectations of a stage.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Output {
    pub(super) status: Option<u16>,
    #[serde(default)]
    pub(super) log: Log,
    /// The server closes the connection without a response. This one does not, so that the log alone counts.
    #[serde(default, rename = "expect_error")]
    _expect_error: bool,
    /// The runner reads the log again; there is no log here.
    #[serde(default, rename = "retry_once")]
    _retry_once: bool,
}

/// The expectations of the log.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Log {
    pub(super) expect_ids: Vec<u64>,
    pub(super) no_expect_ids: Vec<u64>,
    pub(super) match_regex: Option<String>,
    pub(super) no_match_regex: Option<String>,
}

/// Headers in the order of the file.
#[derive(Default)]
pub(super) struct Headers(pub(super) Vec<(String, String)>);

/// Bytes in Base64, possibly on several lines.
pub(super) struct Encoded(pub(super) Vec<u8>);

/// A file of tests.
#[derive(Deserialize)]
struct File {
    rule_id: u64,
    tests: Vec<Case>,
}

/// A test in its file.
#[derive(Deserialize)]
struct Case {
    test_id: u64,
    #[serde(default)]
    desc: String,
    stages: Vec<Stage>,
}

/// Reads all files below a folder, in the order of their names.
pub(super) fn load(folder: &Path) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for entry in WalkDir::new(folder).sort_by_file_name() {
        let entry = entry?;
        if entry.path().extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = fs::read_to_string(entry.path())?;
        if text.lines().all(|line| line.trim().is_empty() || line.starts_with(['#', '-'])) {
            continue;
        }
        let file: File = serde_saphyr::from_str(&text).with_context(|| entry.path().display().to_string())?;
        tests.extend(file.tests.into_iter().map(|case| Test {
            id: format!("{}-{}", file.rule_id, case.test_id),
            description: case.desc,
            stages: case.stages,
        }));
    }
    Ok(tests)
}

// === impl Test ===

impl Test {
    /// Whether `--only` selects the test.
    pub(super) fn is(&self, only: &str) -> bool {
        self.id == only || self.id.split('-').next() == Some(only)
    }
}

// === impl Headers ===

impl Headers {
    /// The values of a header.
    pub(super) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        let found = self.0.iter().filter(move |header| header.0.eq_ignore_ascii_case(name));
        found.map(|header| header.1.as_str())
    }
}

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadersVisitor)
    }
}

/// Reads headers; a value may be a number.
struct HeadersVisitor;

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Number(i64),
}

impl<'de> serde::de::Visitor<'de> for HeadersVisitor {
    type Value = Headers;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("headers")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
        let mut headers = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            let value = match value {
                Value::Text(value) => value,
                Value::Number(value) => value.to_string(),
            };
            headers.push((name, value));
        }
        Ok(Headers(headers))
    }
}

impl<'de> Deserialize<'de> for Encoded {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: String = String::deserialize(deserializer)?;
        let text: String = text.split_whitespace().collect();
        STANDARD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}

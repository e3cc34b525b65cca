//! The page docs/snippets.md as data: its entries, with the YAML and the tables of each.
//!
//! Never in here: a running Forebay.

use std::path::Path;

/// A snippet of the page.
#[derive(Debug)]
pub(super) struct Entry {
    /// The number in its heading.
    pub(super) number: usize,
    pub(super) title: String,
    /// The message that refuses it; none for one that works.
    pub(super) refusal: Option<String>,
    /// The snippet as people write it.
    pub(super) written: Variant,
    /// The snippet to write in its place; none for one that works.
    pub(super) instead: Option<Variant>,
}

/// Settings, and what requests show of them.
#[derive(Debug, Default)]
pub(super) struct Variant {
    /// Annotations and keys of the `ConfigMap`, and their values.
    pub(super) settings: Vec<(String, String)>,
    pub(super) rows: Vec<Row>,
}

/// A line of a table: a request, and what comes of it.
#[derive(Debug)]
pub(super) struct Row {
    /// Method and target.
    pub(super) line: String,
    /// Header fields of the request.
    pub(super) fields: Vec<String>,
    pub(super) expected: Vec<Expected>,
}

/// Something that a request shows.
#[derive(Debug)]
pub(super) enum Expected {
    Status(u16),
    /// The connection is closed without a response.
    Closed,
    /// A header of the response, and its value.
    Header(String, String),
    NoHeader(String),
    /// The whole content.
    Text(String),
    /// A part of the content.
    Part(String),
    /// The beginning of the request line that the endpoint gets.
    Line(String),
    /// A header that the endpoint gets, and its value.
    Told(String, String),
    NotTold(String),
}

/// Reads the page.
pub(super) fn read() -> Vec<Entry> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/snippets.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let sections = page.split("\n### ").skip(1).map(|section| section.split("\n## ").next().unwrap());
    sections.map(entry).collect()
}

fn entry(section: &str) -> Entry {
    let (heading, text) = section.split_once('\n').expect("an entry has lines");
    let (number, title) = heading.split_once(". ").expect("a number and a title");
    let number = number.parse().unwrap_or_else(|_| panic!("{heading}: no number"));
    let mut variants: Vec<Variant> = Vec::new();
    let (mut block, mut refusal) = (String::new(), None);
    for line in text.lines().chain([""]) {
        if line.starts_with("    ") || (line.is_empty() && !block.is_empty()) {
            block.push_str(line.strip_prefix("    ").unwrap_or_default());
            block.push('\n');
            continue;
        }
        if !block.is_empty() {
            variants
                .push(Variant { settings: settings(heading, &std::mem::take(&mut block)), rows: Vec::new() });
        }
        if let Some(message) = line.strip_prefix("Refused: `") {
            refusal = message.rsplit_once('`').map(|(message, _)| message.to_owned());
        } else if line.starts_with("| `") {
            let variant = variants.last_mut().unwrap_or_else(|| panic!("{heading}: a table before the YAML"));
            variant.rows.push(row(heading, line));
        }
    }
    if !block.trim().is_empty() {
        variants.push(Variant { settings: settings(heading, &block), rows: Vec::new() });
    }
    let mut variants = variants.into_iter();
    let written = variants.next().unwrap_or_else(|| panic!("{heading}: no YAML"));
    let instead = variants.next();
    Entry { number, title: title.to_owned(), refusal, written, instead }
}

fn settings(heading: &str, yaml: &str) -> Vec<(String, String)> {
    let read: Result<std::collections::BTreeMap<String, String>, _> = serde_saphyr::from_str(yaml);
    read.unwrap_or_else(|error| panic!("{heading}: {error}\n{yaml}")).into_iter().collect()
}

fn row(heading: &str, line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [request, result] = cells.as_slice() else { panic!("{heading}: {line}: two cells") };
    let mut request = spans(request).into_iter().map(|(_, code)| code);
    let line = request.next().expect("a request");
    let expected = spans(result).into_iter().map(|(words, code)| expected(heading, &words, code)).collect();
    Row { line, fields: request.collect(), expected }
}

/// The pieces of code in a cell, each with the words before it.
fn spans(cell: &str) -> Vec<(String, String)> {
    let mut pieces = cell.split('`');
    let mut spans = Vec::new();
    while let (Some(words), Some(code)) = (pieces.next(), pieces.next()) {
        spans.push((words.trim_matches([',', ' ']).to_owned(), code.to_owned()));
    }
    spans
}

fn expected(heading: &str, words: &str, code: String) -> Expected {
    let field = |code: &str| match code.split_once(": ") {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => panic!("{heading}: {code:?} is no header"),
    };
    match words {
        "" if code == "closed" => Expected::Closed,
        "" => code.parse().map_or_else(
            |_| {
                let (name, value) = field(&code);
                Expected::Header(name, value)
            },
            Expected::Status,
        ),
        "no" => Expected::NoHeader(code),
        "text" => Expected::Text(code),
        "text with" => Expected::Part(code),
        "endpoint gets" if code.contains(": ") => {
            let (name, value) = field(&code);
            Expected::Told(name, value)
        }
        "endpoint gets" => Expected::Line(code),
        "endpoint gets no" => Expected::NotTold(code),
        _ => panic!("{heading}: {words:?} before {code:?} is not understood"),
    }
}

//! The interoperability stories of HPACK: header blocks that a dozen implementations have written, and the
//! fields that are in them. Each is decoded; its fields are encoded and decoded again.
//!
//! Must not be in here: the stories, which the package `hpack` carries.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use wire::field::Known;
use wire::h2::hpack::{Decoded, Decoder, Encoder, ListTooLarge, Token};

use super::stage::Stage;

/// The header blocks of one connection, in one direction.
#[derive(Deserialize)]
struct Story {
    /// The draft of RFC 7541 that the blocks are written by; none where there are fields only.
    #[serde(default)]
    draft: Option<u32>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    /// The block, in hexadecimal digits; not in the folder of raw fields.
    #[serde(default)]
    wire: Option<String>,
    headers: Vec<serde_json::Map<String, serde_json::Value>>,
    /// The size of the table that was agreed on before this block.
    #[serde(default)]
    header_table_size: Option<usize>,
}

type Field = (String, String);

/// Blocks of earlier drafts have another form: representations and the static table were changed.
const DRAFT_MIN: u32 = 9;
/// The largest table of a story.
const TABLE_BYTES_MAX: usize = 16 << 10;
const LIST_BYTES_MAX: usize = 1 << 20;

pub(super) fn run(stage: &Stage) -> Result<String> {
    let stories = stage.tools.node_modules("hpack").join("hpack/test/hpack-test-case");
    let (mut decoded, mut encoded) = (0, 0);
    for folder in entries(&stories)?.into_iter().filter(|folder| folder.is_dir()) {
        for file in
            entries(&folder)?.into_iter().filter(|file| file.extension().is_some_and(|it| it == "json"))
        {
            let story: Story = serde_json::from_str(&fs::read_to_string(&file)?)
                .with_context(|| file.display().to_string())?;
            let told = || file.display().to_string();
            decoded += decode(&story).with_context(told)?;
            encoded += encode(&story).with_context(told)?;
        }
    }
    ensure!(decoded > 0 && encoded > 0, "there are no stories in {}", stories.display());
    Ok(format!("{decoded} blocks of others are decoded, {encoded} lists of fields come back as they were"))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// Decodes the blocks of a story. Returns how many there are.
fn decode(story: &Story) -> Result<usize> {
    if story.draft.is_none_or(|draft| draft < DRAFT_MIN) {
        return Ok(0);
    }
    let mut decoder = decoder();
    let mut blocks = 0;
    for case in &story.cases {
        let Some(wire) = &case.wire else { continue };
        ensure!(
            case.header_table_size.is_none_or(|size| size <= TABLE_BYTES_MAX),
            "a larger table than known"
        );
        let found = fields(&mut decoder, &bytes(wire)?)?;
        ensure!(found == case.fields()?, "block {blocks} has {found:?}");
        blocks += 1;
    }
    Ok(blocks)
}

/// Encodes the fields of a story and decodes them again. Returns how many blocks there are.
fn encode(story: &Story) -> Result<usize> {
    let (mut encoder, mut decoder) = (Encoder::new(TABLE_BYTES_MAX), decoder());
    for case in &story.cases {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        let expected = case.fields()?;
        for (name, value) in &expected {
            let value = value.as_bytes();
            match name.as_str() {
                ":method" => encoder.method(value, &mut block),
                ":path" => encoder.path(value, &mut block),
                ":authority" => encoder.authority(value, &mut block),
                ":scheme" => encoder.scheme(value == b"https", &mut block),
                ":status" => encoder.status(std::str::from_utf8(value)?.parse()?, &mut block),
                name => encoder.usual_field(Known::of(name.as_bytes()), name.as_bytes(), value, &mut block),
            }
        }
        let found = fields(&mut decoder, &block)?;
        ensure!(found == expected, "{expected:?} came back as {found:?}");
    }
    Ok(story.cases.len())
}

fn decoder() -> Decoder {
    let mut decoder = Decoder::new(TABLE_BYTES_MAX);
    decoder.settings_acknowledged();
    decoder
}

fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Field>> {
    let (mut lines, mut places) = (Vec::new(), Vec::new());
    let keep = |_: &mut Vec<u8>, field: Decoded| {
        places.push(field);
        Ok::<_, ListTooLarge>(())
    };
    decoder.decode(block, LIST_BYTES_MAX, &mut lines, keep)??;
    let text = |place: Range<usize>| anyhow::Ok(std::str::from_utf8(&lines[place])?.to_owned());
    let field = |field: Decoded| {
        let name = match field.token {
            Token::UnknownPseudo => bail!("an unknown pseudo-header field"),
            _ => text(field.name)?,
        };
        Ok((name, text(field.value)?))
    };
    places.into_iter().map(field).collect()
}

fn bytes(hex: &str) -> Result<Vec<u8>> {
    let digits = |at| hex.get(at..at + 2).context("half a byte");
    (0..hex.len()).step_by(2).map(|at| Ok(u8::from_str_radix(digits(at)?, 16)?)).collect()
}

impl Case {
    fn fields(&self) -> Result<Vec<Field>> {
        let field = |(name, value): (&String, &serde_json::Value)| {
            Ok((name.clone(), value.as_str().context("a value that is no text")?.to_owned()))
        };
        self.headers.iter().flatten().map(field).collect()
    }
}

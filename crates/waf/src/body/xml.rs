//! XML: the text of the document, which is `XML:/*`, and the values of its attributes, which are `XML://@*`;
//! where rules name them, also each node.
//!
//! A document type is passed over, and one that declares entities is an error.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::budget::Budget;
use super::sink::{Place, Sink};

/// The depth of elements, as in libxml2.
const DEPTH_MAX: usize = 256;

/// A document whose end has not come.
pub(super) struct Xml {
    document: Vec<u8>,
    has_nodes: bool,
}

/// Bytes of nodes for each byte of the document: the text of an element is in each element around it.
const NODES_PER_BYTE_MAX: usize = 16;

/// The parts of a document that have been read.
#[derive(Default)]
struct Content {
    text: String,
    depth: usize,
    has_root: bool,
    nodes: Option<Nodes>,
}

/// The elements that are open.
struct Nodes {
    /// The names of all of them, each behind a slash.
    place: String,
    open: Vec<Open>,
    /// Bytes that nodes may still have.
    left: usize,
}

/// The lengths of the place and of the text before an element.
struct Open {
    place: usize,
    text: usize,
}

// === impl Xml ===

impl Xml {
    pub(super) fn new(has_nodes: bool) -> Self {
        Self { document: Vec::new(), has_nodes }
    }

    pub(super) fn feed(&mut self, piece: &[u8]) {
        self.document.extend_from_slice(piece);
    }

    pub(super) fn end(self, budget: &mut Budget, sink: &mut dyn Sink) {
        if self.document.is_empty() || !budget.count_no_files(self.document.len(), sink) {
            return;
        }
        let Some(document) = decoded(&self.document) else {
            budget.fail("XML: unknown encoding", sink);
            return;
        };
        let left = document.len().saturating_mul(NODES_PER_BYTE_MAX);
        let nodes = self.has_nodes.then(|| Nodes { place: String::new(), open: Vec::new(), left });
        let mut content = Content { nodes, ..Content::default() };
        let result = content.read(&document, budget, sink);
        if !content.text.is_empty() {
            budget.item(Place::XmlText, b"", content.text.as_bytes(), sink);
        }
        if let Err(message) = result {
            budget.fail(message, sink);
        }
    }
}

// === impl Content ===

impl Content {
    /// Reads a document to its end, and passes attributes on.
    fn read(&mut self, document: &str, budget: &mut Budget, sink: &mut dyn Sink) -> Result<(), &'static str> {
        let mut reader = Reader::from_str(document);
        loop {
            match reader.read_event().map_err(|_| "XML: malformed")? {
                Event::Start(element) => self.open(&element, budget, sink)?,
                Event::Empty(element) => {
                    self.open(&element, budget, sink)?;
                    self.close(sink)?;
                }
                Event::End(_) => self.close(sink)?,
                Event::Text(text) => self.add(&text.xml10_content(), sink)?,
                Event::CData(text) => self.add(&text.xml10_content(), sink)?,
                Event::GeneralRef(reference) => self.add(&resolved(&reference)?, sink)?,
                Event::DocType(text) if text.contains("<!ENTITY") => {
                    return Err("XML: entities are not supported");
                }
                Event::DocType(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
                Event::Eof if self.depth == 0 && self.has_root => return Ok(()),
                Event::Eof => return Err("XML: premature end"),
            }
        }
    }

    fn open(
        &mut self,
        element: &BytesStart<'_>,
        budget: &mut Budget,
        sink: &mut dyn Sink,
    ) -> Result<(), &'static str> {
        if self.depth == 0 && self.has_root {
            return Err("XML: a second root");
        }
        if self.depth == DEPTH_MAX {
            return Err("XML: too deep");
        }
        self.has_root = true;
        self.depth += 1;
        if let Some(nodes) = &mut self.nodes {
            nodes.open.push(Open { place: nodes.place.len(), text: self.text.len() });
            nodes.place.push('/');
            nodes.place.push_str(element.name().as_ref());
        }
        attributes(element, self.nodes.as_mut(), budget, sink)
    }

    fn close(&mut self, sink: &mut dyn Sink) -> Result<(), &'static str> {
        self.depth = self.depth.checked_sub(1).ok_or("XML: an end without a beginning")?;
        if let Some(nodes) = &mut self.nodes
            && let Some(open) = nodes.open.pop()
        {
            nodes.tell("", &self.text[open.text..], sink)?;
            nodes.place.truncate(open.place);
        }
        Ok(())
    }

    fn add(&mut self, text: &str, sink: &mut dyn Sink) -> Result<(), &'static str> {
        if self.depth > 0 {
            self.text.push_str(text);
            if let Some(nodes) = &mut self.nodes {
                nodes.tell("/text()", text, sink)?;
            }
        } else if !text.trim_ascii().is_empty() {
            return Err("XML: text outside of the root");
        }
        Ok(())
    }
}

// === impl Nodes ===

impl Nodes {
    /// Passes on the innermost element, or what is in it.
    fn tell(&mut self, within: &str, value: &str, sink: &mut dyn Sink) -> Result<(), &'static str> {
        let place = [&self.place, within].concat();
        let left = self.left.checked_sub(place.len() + value.len());
        self.left = left.ok_or("XML: too much text in elements of elements")?;
        sink.item(Place::XmlNode, place.as_bytes(), value.as_bytes());
        Ok(())
    }
}

fn attributes(
    element: &BytesStart<'_>,
    mut nodes: Option<&mut Nodes>,
    budget: &mut Budget,
    sink: &mut dyn Sink,
) -> Result<(), &'static str> {
    let mut names: Vec<String> = Vec::new();
    // The reader's own check for a name that comes twice compares each with each.
    for attribute in element.attributes().with_checks(false) {
        let attribute = attribute.map_err(|_| "XML: malformed attribute")?;
        let name = attribute.key.as_ref();
        let value = quick_xml::escape::unescape(&attribute.value).map_err(|_| "XML: unknown reference")?;
        // Declarations of namespaces are no attributes for XPath.
        if name != "xmlns" && !name.starts_with("xmlns:") {
            budget.item(Place::XmlAttribute, name.as_bytes(), value.as_bytes(), sink);
            if let Some(nodes) = &mut nodes {
                nodes.tell(&format!("/@{name}"), &value, sink)?;
            }
        }
        names.push(name.to_owned());
    }
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("XML: an attribute comes twice");
    }
    Ok(())
}

fn resolved(reference: &BytesRef<'_>) -> Result<String, &'static str> {
    if let Some(character) = reference.resolve_char_ref().map_err(|_| "XML: invalid reference")? {
        return Ok(character.to_string());
    }
    let text = quick_xml::escape::resolve_predefined_entity(reference);
    text.map(str::to_owned).ok_or("XML: unknown reference")
}

/// A document as UTF-8: it is UTF-8, or UTF-16 with a byte order mark, or declares a code page with one byte
/// for each character.
fn decoded(document: &[u8]) -> Option<Cow<'_, str>> {
    match document {
        [0xef, 0xbb, 0xbf, rest @ ..] => return std::str::from_utf8(rest).ok().map(Cow::Borrowed),
        [0xff, 0xfe, rest @ ..] => return utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => return utf16(rest, u16::from_be_bytes),
        _ => {}
    }
    if let Ok(text) = std::str::from_utf8(document) {
        return Some(Cow::Borrowed(text));
    }
    let declaration = document.split(|&byte| byte == b'>').next()?.to_ascii_lowercase();
    let pages: [&[u8]; 3] = [b"iso-8859-", b"windows-125", b"latin"];
    let is_single = pages.iter().any(|page| memchr::memmem::find(&declaration, page).is_some());
    is_single.then(|| document.iter().copied().map(char::from).collect())
}

fn utf16(document: &[u8], unit: impl Fn([u8; 2]) -> u16) -> Option<Cow<'_, str>> {
    let (pairs, rest) = document.as_chunks();
    let text: Result<String, _> = char::decode_utf16(pairs.iter().map(|&pair| unit(pair))).collect();
    if rest.is_empty() { text.ok().map(Cow::Owned) } else { None }
}

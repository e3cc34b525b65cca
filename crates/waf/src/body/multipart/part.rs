//! One part of a multipart body: its header, and what it contains.

use super::disposition;
use super::flags::{Flags, LINE_BYTES_MAX};
use crate::body::budget::Budget;
use crate::body::sink::{Flag, Place, Sink};

/// The number of header lines in a part.
const HEADER_LINES_MAX: usize = 100;

/// A part whose end has not come.
#[derive(Default)]
pub(super) struct Part {
    name: Vec<u8>,
    filename: Option<Vec<u8>>,
    headers: Vec<Header>,
    /// Whether the header has ended.
    pub(super) is_in_content: bool,
    /// The content of a field.
    value: Vec<u8>,
    /// The bytes of a file.
    size: usize,
    /// A line end that belongs to the content, unless a boundary is next.
    line_end: &'static [u8],
}

/// A header with its folded lines joined.
struct Header {
    line: Vec<u8>,
    name_len: usize,
}

// === impl Part ===

impl Part {
    /// Whether the part is a file.
    pub(super) fn is_file(&self) -> bool {
        self.filename.is_some()
    }

    /// Reads a line of the header, with its line end.
    pub(super) fn header_line(
        &mut self,
        line: &[u8],
        flags: &mut Flags,
        sink: &mut dyn Sink,
    ) -> Result<(), &'static str> {
        if line.contains(&0) {
            return Err("Multipart: NUL byte in a part's header");
        }
        let has_return = line.ends_with(b"\r\n");
        flags.line_end(has_return);
        let line = &line[..line.len() - 1 - usize::from(has_return)];
        match line.first() {
            None => self.end_header(flags, sink),
            Some(b' ' | b'\t'..=b'\r') => self.folded_line(line, flags),
            Some(_) => self.new_header(line),
        }
    }

    fn folded_line(&mut self, line: &[u8], flags: &mut Flags) -> Result<(), &'static str> {
        flags.set(Flag::HeaderFolding);
        let spaces = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
        if line[..spaces].iter().any(|byte| !matches!(byte, b' ' | b'\t')) {
            flags.set(Flag::InvalidHeaderFolding);
        }
        let header = self.headers.last_mut().ok_or("Multipart: a folded line without a header")?;
        header.line.push(b' ');
        header.line.extend_from_slice(&line[spaces..]);
        if header.line.len() > LINE_BYTES_MAX {
            Err("Multipart: a part's header is too long")
        } else {
            Ok(())
        }
    }

    fn new_header(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let name_len =
            line.iter().position(|&byte| byte == b':').ok_or("Multipart: a header without a colon")?;
        if name_len == 0 {
            return Err("Multipart: a header without a name");
        }
        if self.headers.iter().any(|header| header.is(&line[..name_len])) {
            return Err("Multipart: a header comes twice in a part");
        }
        if self.headers.len() == HEADER_LINES_MAX {
            return Err("Multipart: too many headers in a part");
        }
        self.headers.push(Header { line: line.to_vec(), name_len });
        Ok(())
    }

    fn end_header(&mut self, flags: &mut Flags, sink: &mut dyn Sink) -> Result<(), &'static str> {
        let header = self.headers.iter().find(|header| header.is(b"Content-Disposition"));
        let header = header.ok_or("Multipart: a part without Content-Disposition")?;
        let found = disposition::parse(header.value(), flags)?;
        if found.name.is_empty() {
            return Err("Multipart: a part without a name");
        }
        sink.item(Place::MultipartName, b"", &found.name);
        // An empty file name is that of a field which was left empty: libmodsecurity takes it for a field.
        let filename = found.filename.filter(|filename| !filename.is_empty());
        if let Some(filename) = &filename {
            sink.item(Place::MultipartFilename, b"", filename);
        }
        (self.name, self.filename) = (found.name, filename);
        self.is_in_content = true;
        Ok(())
    }

    /// Adds a piece of the content, which ends with the line end or within a long line.
    pub(super) fn content(&mut self, piece: &[u8], budget: &mut Budget, sink: &mut dyn Sink) {
        let end = if piece.ends_with(b"\r\n") {
            &b"\r\n"[..]
        } else if piece.ends_with(b"\n") {
            &b"\n"[..]
        } else {
            &b""[..]
        };
        let before = std::mem::replace(&mut self.line_end, end);
        let piece = &piece[..piece.len() - end.len()];
        if self.is_file() {
            self.size += before.len() + piece.len();
        } else if budget.count_no_files(before.len() + piece.len(), sink) {
            self.value.extend_from_slice(before);
            self.value.extend_from_slice(piece);
        }
    }

    /// Passes the part on.
    pub(super) fn end(self, flags: &mut Flags, budget: &mut Budget, sink: &mut dyn Sink) {
        if self.name.is_empty() {
            flags.set(Flag::InvalidPart);
            return;
        }
        for header in &self.headers {
            sink.item(Place::PartHeader, &self.name, &header.line);
        }
        match &self.filename {
            Some(filename) => {
                budget.item(Place::File, &self.name, filename, sink);
                sink.item(Place::FileSize, &self.name, self.size.to_string().as_bytes());
            }
            None => budget.item(Place::Argument, &self.name, &self.value, sink),
        }
    }
}

// === impl Header ===

impl Header {
    fn is(&self, name: &[u8]) -> bool {
        self.line[..self.name_len].eq_ignore_ascii_case(name)
    }

    fn value(&self) -> &[u8] {
        let value = &self.line[self.name_len + 1..];
        let spaces = value.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        &value[spaces..]
    }
}

//! `multipart/form-data` (RFC 7578), line by line, and the flags for what strict servers refuse.
//!
//! The lines, limits and flags are those of ModSecurity 3: a parser behind the proxy may be laxer in each of
//! them, and rules decide by the flags whether that is let pass.

mod boundary;
mod disposition;
mod flags;
mod part;

use memchr::{memchr, memmem};

use super::budget::Budget;
use super::sink::{Flag, Sink};
use flags::{Flags, LINE_BYTES_MAX};
use part::Part;

/// A multipart body whose end has not come.
pub(super) struct Multipart {
    /// The boundary, or the reason why there is none.
    boundary: Result<Vec<u8>, &'static str>,
    /// The boundary with its two hyphens.
    marker: Vec<u8>,
    flags: Flags,
    /// The line that has begun.
    line: Vec<u8>,
    /// Whether `line` is the beginning of its line.
    is_line_begin: bool,
    part: Option<Part>,
    boundaries: usize,
    has_data: bool,
    is_complete: bool,
    /// A line looked like a boundary and was none, and no boundary has come since.
    has_unmatched: bool,
    files: usize,
    /// The number of files that are allowed; 0 for any.
    files_max: usize,
}

/// A line that begins with two hyphens.
enum Dashed {
    Boundary { is_final: bool, has_return: bool },
    Invalid(&'static str),
    Unmatched,
}

// === impl Multipart ===

impl Multipart {
    pub(super) fn new(content_type: &[u8], files_max: usize) -> Self {
        let mut flags = Flags::default();
        let boundary = boundary::boundary(content_type, &mut flags);
        Self {
            marker: [b"--", boundary.as_deref().unwrap_or_default()].concat(),
            boundary,
            flags,
            line: Vec::new(),
            is_line_begin: true,
            part: None,
            boundaries: 0,
            has_data: false,
            is_complete: false,
            has_unmatched: false,
            files: 0,
            files_max,
        }
    }

    pub(super) fn feed(&mut self, piece: &[u8], budget: &mut Budget, sink: &mut dyn Sink) {
        self.has_data = true;
        if let Err(message) = self.boundary {
            budget.fail(message, sink);
        }
        let mut rest = piece;
        while !rest.is_empty() && !budget.has_failed() {
            if self.is_complete {
                self.flags.set(Flag::DataAfter);
                return;
            }
            let room = &rest[..rest.len().min(LINE_BYTES_MAX - self.line.len())];
            let end = memchr(b'\n', room);
            let (now, after) = rest.split_at(end.map_or(room.len(), |end| end + 1));
            self.line.extend_from_slice(now);
            rest = after;
            if end.is_some() || self.line.len() == LINE_BYTES_MAX {
                self.take_line(end.is_some(), budget, sink);
            }
        }
    }

    pub(super) fn end(&mut self, budget: &mut Budget, sink: &mut dyn Sink) {
        if self.has_data && !self.is_complete && !budget.has_failed() {
            self.end_early(budget, sink);
        }
        if self.has_unmatched {
            self.flags.set(Flag::UnmatchedBoundary);
        }
        self.flags.report(sink);
    }

    /// The end of a body without a complete line of the final boundary: the line's end alone may be missing.
    fn end_early(&mut self, budget: &mut Budget, sink: &mut dyn Sink) {
        let boundary = self.boundary.as_deref().unwrap_or_default();
        let is_final = self.is_line_begin
            && self.line.strip_prefix(b"--").and_then(|line| line.strip_suffix(b"--")) == Some(boundary);
        if self.boundaries == 0 {
            budget.fail("Multipart: no boundary in the body", sink);
        } else if is_final {
            self.end_part(budget, sink);
        } else {
            budget.fail("Multipart: the final boundary is missing", sink);
        }
    }

    /// Takes a line, or a part of one that is too long for the buffer.
    fn take_line(&mut self, is_ended: bool, budget: &mut Budget, sink: &mut dyn Sink) {
        let mut line = std::mem::take(&mut self.line);
        let is_begin = std::mem::replace(&mut self.is_line_begin, is_ended);
        // A line end is never cut in two.
        let has_return = !is_ended && line.last() == Some(&b'\r');
        if has_return {
            line.pop();
        }
        match self.dashed(&line, is_begin) {
            Some(Dashed::Boundary { is_final, has_return }) => {
                self.flags.line_end(has_return);
                self.end_part(budget, sink);
                self.has_unmatched &= self.boundaries == 0;
                self.boundaries += 1;
                self.is_complete = is_final;
                self.part = (!is_final).then(Part::default);
            }
            Some(Dashed::Invalid(message)) => budget.fail(message, sink),
            other => {
                self.has_unmatched |= other.is_some();
                self.data(&line, is_ended, budget, sink);
            }
        }
        line.clear();
        if has_return {
            line.push(b'\r');
        }
        self.line = line;
    }

    /// Compares a line with the boundary; none if it has nothing like one.
    fn dashed(&self, line: &[u8], is_begin: bool) -> Option<Dashed> {
        let boundary = self.boundary.as_deref().unwrap_or_default();
        if !is_begin {
            return None;
        }
        let Some(rest) = line.strip_prefix(b"--").filter(|_| line.len() > 3) else {
            // A line that is shorter is not searched: preparing the search costs the length of the boundary.
            let has_one = line.len() >= self.marker.len() && memmem::find(line, &self.marker).is_some();
            return has_one.then_some(Dashed::Unmatched);
        };
        let Some(end) = rest.strip_prefix(boundary) else {
            let inner = rest.trim_ascii_start();
            let is_quoted = self.flags.has(Flag::BoundaryQuoted);
            return Some(
                if is_quoted && rest.strip_prefix(b"\"").is_some_and(|rest| rest.starts_with(boundary)) {
                    Dashed::Invalid("Multipart: a boundary in quotes")
                } else if inner.len() < rest.len() && inner.starts_with(boundary) {
                    Dashed::Invalid("Multipart: white space before a boundary")
                } else {
                    Dashed::Unmatched
                },
            );
        };
        let (is_final, end) = end.strip_prefix(b"--").map_or((false, end), |end| (true, end));
        Some(match end {
            b"\r\n" => Dashed::Boundary { is_final, has_return: true },
            b"\n" => Dashed::Boundary { is_final, has_return: false },
            _ => Dashed::Invalid("Multipart: something after a boundary"),
        })
    }

    fn data(&mut self, line: &[u8], is_ended: bool, budget: &mut Budget, sink: &mut dyn Sink) {
        let Some(part) = &mut self.part else {
            self.flags.set(Flag::DataBefore);
            return;
        };
        if part.is_in_content {
            part.content(line, budget, sink);
            return;
        }
        if !is_ended {
            budget.fail("Multipart: a part's header is too long", sink);
        } else if budget.count_no_files(line.len(), sink) {
            let result = part.header_line(line, &mut self.flags, sink);
            if let Err(message) = result {
                budget.fail(message, sink);
            } else if part.is_in_content && part.is_file() {
                self.files += 1;
                if self.files_max > 0 && self.files > self.files_max {
                    self.flags.set(Flag::FileLimitExceeded);
                }
            }
        }
    }

    fn end_part(&mut self, budget: &mut Budget, sink: &mut dyn Sink) {
        if let Some(part) = self.part.take() {
            part.end(&mut self.flags, budget, sink);
        }
    }
}

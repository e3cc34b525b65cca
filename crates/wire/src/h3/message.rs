//! The frames of one message on a request stream (RFC 9114 section 4.1): heads, content, trailers.

use super::code::{Code, Fault};
use super::frame::{Header, HeaderReader, kind, write_header};
use super::qpack::{Decoder, Encoder, Section, SectionWriter};
use crate::field::Known;
use crate::h1::{Malformed, Request, RequestLimits, Response};
use crate::h2::RequestHead;
use crate::head::{self, HeadFault, HeaderBlock};
use crate::priority::Priority;

/// The message that comes on a request stream, while it comes.
#[derive(Debug)]
pub struct Message {
    phase: Phase,
    header: HeaderReader,
    /// The frame whose payload is coming, and how much of it is still to come.
    frame: Option<Header>,
    /// A header block, as far as it has come.
    block: Vec<u8>,
    block_bytes_max: usize,
    /// Bytes of content that are still to come; none if the head does not say.
    expected: Option<u64>,
    /// Frames that were of no use.
    useless: u32,
}

/// The part of a message that may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head,
    /// A head waits to be read.
    HeadRead,
    Content,
    /// Trailers have come: nothing may follow but frames that are ignored.
    Trailers,
}

/// A part of a message, as it has come.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// A whole header block, which [`Message::request`] or [`Message::response`] reads.
    Head,
    /// A header block that is longer than the bound; the rest of the message is of no use.
    HeadTooLarge,
    /// A piece of the content. It is part of the input.
    Content(&'a [u8]),
    /// Whole trailers, which [`Message::trailers`] reads.
    Trailers,
}

/// Reads the header blocks of a stream.
#[derive(Debug)]
pub struct BlockReader<'d> {
    /// The decoder of the connection.
    pub decoder: &'d mut Decoder,
    /// The number of the stream.
    pub stream: u64,
    /// Bound of the fields of a block, counted as RFC 9114 section 4.2.2 says.
    pub list_bytes_max: usize,
}

impl BlockReader<'_> {
    /// The same reader for one more block.
    pub fn again(&mut self) -> BlockReader<'_> {
        BlockReader { decoder: self.decoder, ..*self }
    }
}

/// The head of a request as it has been read.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// The reason why the request cannot be served, for which there is a response.
    pub head: Result<(), Malformed>,
    /// The order of the response among others.
    pub priority: Priority,
}

/// Frames without a use that a stream may have: unknown ones, and empty ones of content.
const USELESS_FRAMES_MAX: u32 = 1000;

impl Message {
    /// The message of a stream that has begun. `block_bytes_max` bounds a header block, as it is sent.
    pub fn new(block_bytes_max: usize) -> Self {
        Self {
            phase: Phase::Head,
            header: HeaderReader::default(),
            frame: None,
            block: Vec::new(),
            block_bytes_max,
            expected: None,
            useless: 0,
        }
    }

    /// Whether the first byte of the message has not come.
    pub fn is_untouched(&self) -> bool {
        self.phase == Phase::Head && self.frame.is_none() && !self.header.has_begun()
    }

    /// Reads on, and removes from `input` the bytes that have been read. Returns none once all have been.
    ///
    /// # Errors
    /// The peer has broken a rule.
    pub fn receive<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Part<'a>>, Fault> {
        while !input.is_empty() {
            let Some(frame) = &mut self.frame else {
                let Some(header) = self.header.read(input) else { return Ok(None) };
                if let Some(part) = self.begin(header)? {
                    return Ok(Some(part));
                }
                continue;
            };
            let len = usize::try_from(frame.len).unwrap_or(usize::MAX).min(input.len());
            let (piece, rest) = input.split_at(len);
            *input = rest;
            frame.len -= len as u64;
            let (kind, is_whole) = (frame.kind, frame.len == 0);
            if is_whole {
                self.frame = None;
            }
            match kind {
                kind::DATA => return Ok(Some(Part::Content(piece))),
                kind::HEADERS => {
                    self.block.extend_from_slice(piece);
                    if is_whole {
                        return Ok(Some(self.end_block()));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Notes that no bytes follow.
    ///
    /// # Errors
    /// The message is not whole.
    pub fn end(&self) -> Result<(), Fault> {
        match self.phase {
            // RFC 9114 section 7.1: a frame that is cut off is an error of the connection.
            _ if self.frame.is_some() || self.header.has_begun() => {
                Err(Fault::of_connection(Code::FRAME_ERROR))
            }
            Phase::Head => Err(Fault::of_stream(Code::REQUEST_INCOMPLETE)),
            _ if self.expected.is_some_and(|left| left > 0) => Err(Fault::of_stream(Code::MESSAGE_ERROR)),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, header: Header) -> Result<Option<Part<'static>>, Fault> {
        match (header.kind, self.phase) {
            (kind::HEADERS, Phase::Head | Phase::Content) => {
                if header.len > self.block_bytes_max as u64 {
                    return Ok(Some(Part::HeadTooLarge));
                }
                self.block.clear();
                if header.len == 0 {
                    return Ok(Some(self.end_block()));
                }
            }
            (kind::DATA, Phase::Content) => {
                if let Some(left) = &mut self.expected {
                    *left = left.checked_sub(header.len).ok_or(Fault::of_stream(Code::MESSAGE_ERROR))?;
                }
                if header.len == 0 {
                    self.note_useless()?;
                }
            }
            (
                kind::HEADERS
                | kind::DATA
                | kind::CANCEL_PUSH
                | kind::SETTINGS
                | kind::PUSH_PROMISE
                | kind::GOAWAY
                | kind::MAX_PUSH_ID
                | kind::PRIORITY_UPDATE
                | kind::PRIORITY_UPDATE_OF_PUSH,
                _,
            ) => return Err(Fault::of_connection(Code::FRAME_UNEXPECTED)),
            (kind, _) if kind::is_of_http2(kind) => return Err(Fault::of_connection(Code::FRAME_UNEXPECTED)),
            _ => self.note_useless()?,
        }
        if header.len > 0 {
            self.frame = Some(header);
        }
        Ok(None)
    }

    fn end_block(&mut self) -> Part<'static> {
        if self.phase == Phase::Head {
            self.phase = Phase::HeadRead;
            Part::Head
        } else {
            self.phase = Phase::Trailers;
            Part::Trailers
        }
    }

    fn note_useless(&mut self) -> Result<(), Fault> {
        self.useless += 1;
        if self.useless > USELESS_FRAMES_MAX {
            return Err(Fault::of_connection(Code::EXCESSIVE_LOAD));
        }
        Ok(())
    }

    /// Whether the block that has just come waits for entries of the dynamic table. Then it must not be read
    /// before [`Decoder::unblocked`] has returned the stream.
    ///
    /// # Errors
    /// The block cannot be decoded, or more streams wait than are allowed.
    pub fn is_blocked(&self, decoder: &mut Decoder, stream: u64) -> Result<bool, Fault> {
        decoder.blocks(stream, &self.block)
    }

    /// Reads the head of a request that has just [come](Part::Head) into `head`, which must be empty, and
    /// `request`. With `is_end` nothing follows it. `websocket_key` makes the key with which an extended
    /// CONNECT (RFC 9220) becomes the `Upgrade` of RFC 6455.
    ///
    /// # Errors
    /// The head breaks a rule of HTTP/3 or cannot be decoded.
    pub fn request(
        &mut self,
        reader: BlockReader<'_>,
        limits: RequestLimits,
        is_end: bool,
        websocket_key: impl FnOnce() -> String,
        head: &mut Vec<u8>,
        request: &mut Request,
    ) -> Result<Opened, Fault> {
        let bytes = std::mem::take(&mut self.block);
        let BlockReader { decoder, stream, list_bytes_max } = reader;
        let decoder = &mut Section { decoder, stream };
        let block = HeaderBlock { decoder, bytes: &bytes, list_bytes_max, is_end };
        let read = head::read_request(block, limits, websocket_key, head, request);
        let read = read.map_err(|_| BROKEN_BLOCK)?;
        self.phase = Phase::Content;
        match read {
            Ok(priority) => {
                // RFC 9114 section 4.3.1. HTTP/1 and HTTP/2 have no such rule.
                if request.fields.find(Known::Host).is_some_and(|host| host.value(head).is_empty()) {
                    return Err(Fault::of_stream(Code::MESSAGE_ERROR));
                }
                self.expected = request.fields.content_length;
                Ok(Opened { head: Ok(()), priority })
            }
            Err(HeadFault::Broken) => Err(Fault::of_stream(Code::MESSAGE_ERROR)),
            Err(HeadFault::Malformed(fault)) => {
                Ok(Opened { head: Err(fault), priority: Priority::default() })
            }
        }
    }

    /// Reads the head of a response that has just come; an interim one is followed by another.
    ///
    /// # Errors
    /// The head breaks a rule or cannot be decoded.
    pub fn response(
        &mut self,
        reader: BlockReader<'_>,
        answers_head: bool,
        is_end: bool,
        head: &mut Vec<u8>,
        response: &mut Response,
    ) -> Result<(), Fault> {
        let bytes = std::mem::take(&mut self.block);
        let BlockReader { decoder, stream, list_bytes_max } = reader;
        let decoder = &mut Section { decoder, stream };
        let block = HeaderBlock { decoder, bytes: &bytes, list_bytes_max, is_end };
        let read = head::read_response(block, head, response).map_err(|_| BROKEN_BLOCK)?;
        read.map_err(|_| Fault::of_stream(Code::MESSAGE_ERROR))?;
        if response.status < 200 {
            self.phase = Phase::Head;
            return Ok(());
        }
        self.phase = Phase::Content;
        let has_content = !answers_head && !matches!(response.status, 204 | 304);
        self.expected = if has_content { response.fields.content_length } else { Some(0) };
        Ok(())
    }

    /// Reads trailers that have just [come](Part::Trailers), as lines of HTTP/1.
    ///
    /// # Errors
    /// They break a rule or cannot be decoded.
    pub fn trailers(&mut self, reader: BlockReader<'_>, lines: &mut Vec<u8>) -> Result<(), Fault> {
        let bytes = std::mem::take(&mut self.block);
        let BlockReader { decoder, stream, list_bytes_max } = reader;
        let decoder = &mut Section { decoder, stream };
        let block = HeaderBlock { decoder, bytes: &bytes, list_bytes_max, is_end: true };
        let read = head::read_trailers(block, lines).map_err(|_| BROKEN_BLOCK)?;
        read.map_err(|_| Fault::of_stream(Code::MESSAGE_ERROR))
    }
}

const BROKEN_BLOCK: Fault = Fault::of_connection(Code::QPACK_DECOMPRESSION_FAILED);

// === Sending ===

/// Appends the HEADERS frame of a response, which is interim below 200. `fields` are names and values without
/// those of HTTP/1 alone.
pub fn write_response<'f>(
    encoder: &mut Encoder,
    stream: u64,
    status: u16,
    fields: impl Iterator<Item = (Known, &'f [u8], &'f [u8])>,
    out: &mut Vec<u8>,
) {
    let mut block = encoder.begin(stream);
    block.status(status);
    fields.for_each(|(_, name, value)| block.field(name, value));
    write_block(block, out);
}

/// Appends the HEADERS frame of a request.
pub fn write_request<'f>(
    encoder: &mut Encoder,
    stream: u64,
    head: RequestHead<'_>,
    fields: impl Iterator<Item = (Known, &'f [u8], &'f [u8])>,
    out: &mut Vec<u8>,
) {
    let mut block = encoder.begin(stream);
    block.field(b":method", head.method);
    block.field(b":scheme", if head.is_https { b"https" } else { b"http" });
    block.field(b":authority", head.authority);
    block.field(b":path", head.path);
    let fields = fields.filter(|(known, ..)| *known != Known::Host);
    fields.for_each(|(_, name, value)| block.field(name, value));
    write_block(block, out);
}

/// Appends the HEADERS frame of trailers.
pub fn write_trailers<'f>(
    encoder: &mut Encoder,
    stream: u64,
    fields: impl Iterator<Item = (Known, &'f [u8], &'f [u8])>,
    out: &mut Vec<u8>,
) {
    let mut block = encoder.begin(stream);
    fields.for_each(|(_, name, value)| block.field(name, value));
    write_block(block, out);
}

fn write_block(block: SectionWriter<'_>, out: &mut Vec<u8>) {
    let [front, fields] = block.finish();
    write_header(kind::HEADERS, front.len() + fields.len(), out);
    out.extend_from_slice(&front);
    out.extend_from_slice(&fields);
}

/// Appends the front of a DATA frame with this many bytes.
pub fn write_data_header(len: usize, out: &mut Vec<u8>) {
    write_header(kind::DATA, len, out);
}

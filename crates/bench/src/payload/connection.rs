//! One client connection of the payload server: read a request, send its response, read the next.
//!
//! Must not be in here: the content of responses, and clocks.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use super::answer::{self, Answers, Script, Step};
use super::request::{Progress, Request, RequestReader};
use super::{Counters, increment};
use crate::socket::{self, Received};

/// State that the connections of a thread share.
pub(super) struct Shared {
    pub(super) answers: Answers,
    pub(super) counters: Arc<Counters>,
    pub(super) buffer: Vec<u8>,
}

/// A client connection.
pub(super) struct Connection {
    stream: TcpStream,
    reader: RequestReader,
    /// Requests received after one whose response is still being sent.
    unread: Vec<u8>,
    script: Script,
    /// Number of bytes sent of the script's first step.
    sent: usize,
    /// When the script continues; none while it does not pause.
    wake_at: Option<Instant>,
    /// Close when the script has ended.
    closing: bool,
}

/// The event that a connection waits for.
pub(super) enum Verdict {
    /// Readiness of its socket.
    Ready,
    /// A point in time.
    Time(Instant),
    /// The connection has ended.
    Over,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Connection {
        Connection {
            stream,
            reader: RequestReader::default(),
            unread: Vec::new(),
            script: Script::new(),
            sent: 0,
            wake_at: None,
            closing: false,
        }
    }

    /// Makes all possible progress. Call it when the socket is ready or the time has come.
    pub(super) fn advance(&mut self, shared: &mut Shared, ending: bool) -> Verdict {
        self.try_advance(shared, ending).unwrap_or(Verdict::Over)
    }

    fn try_advance(&mut self, shared: &mut Shared, ending: bool) -> io::Result<Verdict> {
        // If a response took more than one turn, readiness events may have been missed meanwhile.
        let mut exhaust = ending || !self.script.is_empty();
        loop {
            if let Some(verdict) = self.play()? {
                return Ok(verdict);
            }
            if !self.unread.is_empty() {
                let unread = std::mem::take(&mut self.unread);
                self.take(&unread, shared)?;
                exhaust = true;
                continue;
            }
            match socket::receive(&self.stream, &mut shared.buffer)? {
                Received::Nothing => return Ok(Verdict::Ready),
                Received::End => return Ok(Verdict::Over),
                Received::Bytes(count) => {
                    let buffer = std::mem::take(&mut shared.buffer);
                    let taken = self.take(&buffer[..count], shared);
                    let drained = count < buffer.len() && !exhaust;
                    shared.buffer = buffer;
                    taken?;
                    if drained && self.script.is_empty() && !self.closing {
                        return Ok(Verdict::Ready);
                    }
                }
            }
        }
    }

    /// Sends the script; `None` when it has ended and the next request may be read.
    fn play(&mut self) -> io::Result<Option<Verdict>> {
        while let Some(step) = self.script.front() {
            match step {
                Step::Send(bytes) => {
                    self.sent += socket::send(&self.stream, &bytes[self.sent..])?;
                    if self.sent < bytes.len() {
                        return Ok(Some(Verdict::Ready));
                    }
                    self.sent = 0;
                }
                Step::Wait(pause) => {
                    let wake_at = *self.wake_at.get_or_insert_with(|| Instant::now() + *pause);
                    if Instant::now() < wake_at {
                        return Ok(Some(Verdict::Time(wake_at)));
                    }
                    self.wake_at = None;
                }
            }
            self.script.pop_front();
        }
        Ok(self.closing.then_some(Verdict::Over))
    }

    /// Answers the requests in `bytes`, up to the first whose response takes longer; keeps the rest.
    fn take(&mut self, mut bytes: &[u8], shared: &mut Shared) -> io::Result<()> {
        while !bytes.is_empty() && self.script.is_empty() && !self.closing {
            match self.reader.feed(bytes) {
                Err(_) => {
                    self.closing = true;
                    self.script = answer::bad_request();
                }
                Ok((used, progress)) => {
                    bytes = &bytes[used..];
                    match progress {
                        Progress::Partial => {}
                        Progress::ContinueExpected => self.script = answer::go_on(),
                        Progress::Whole(request) => self.answer(&request, shared)?,
                    }
                }
            }
        }
        self.unread.extend_from_slice(bytes);
        Ok(())
    }

    /// Sends a response that was made in advance, as far as the kernel takes it; otherwise makes its script.
    fn answer(&mut self, request: &Request, shared: &mut Shared) -> io::Result<()> {
        increment(&shared.counters.requests);
        self.closing = !request.keeps_connection();
        if let Some(bytes) = shared.answers.fixed(request) {
            self.sent = socket::send(&self.stream, bytes)?;
            if self.sent == bytes.len() {
                self.sent = 0;
            } else {
                self.script.push_back(Step::Send(Arc::clone(bytes)));
            }
        } else {
            self.script = answer::script(request, shared.counters.read(), self.stream.peer_addr().ok());
        }
        Ok(())
    }
}

//! The two directions of an HTTP/2 stream. A client and an upstream are alike in that.

use std::future::poll_fn;

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::runtime::wait;

/// Fields of the trailers.
pub type Trailers = Vec<(String, String)>;

/// The sending direction of a stream. Dropping it before its end resets the stream.
#[derive(Debug)]
pub struct BodySender {
    stream: SendStream<Bytes>,
}

/// The receiving direction of a stream.
#[derive(Debug)]
pub struct BodyReceiver {
    stream: RecvStream,
    unread: Vec<u8>,
}

impl BodySender {
    pub(crate) fn new(stream: SendStream<Bytes>) -> Self {
        Self { stream }
    }

    /// Sends data, as the other end allows it.
    pub fn send(&mut self, data: impl Into<Bytes>, is_end: bool) {
        self.try_send(data, is_end).expect("the other end takes it");
    }

    /// Sends data to a peer that may have reset the stream.
    pub fn try_send(&mut self, data: impl Into<Bytes>, is_end: bool) -> Result<(), h2::Error> {
        let mut data = data.into();
        while !data.is_empty() {
            self.stream.reserve_capacity(data.len());
            let capacity = wait("room to send", poll_fn(|cx| self.stream.poll_capacity(cx)));
            let piece = data.split_to(capacity.unwrap_or(Ok(0))?.min(data.len()));
            self.stream.send_data(piece, is_end && data.is_empty())?;
            if data.is_empty() {
                return Ok(());
            }
        }
        self.stream.send_data(data, is_end)
    }

    /// Ends with trailers.
    pub fn send_trailers(&mut self, fields: &[(&str, &str)]) {
        self.stream.send_trailers(header_map(fields)).expect("the stream is open");
    }

    /// Resets the stream.
    pub fn reset(&mut self, reason: Reason) {
        self.stream.send_reset(reason);
    }

    /// Waits for the other end to break off.
    pub fn await_reset(&mut self) -> Result<Reason, h2::Error> {
        wait("a reset", poll_fn(|cx| self.stream.poll_reset(cx)))
    }
}

impl BodyReceiver {
    pub(crate) fn new(stream: RecvStream) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// The next piece of data, or `None` at the end. The window is enlarged by what was read.
    pub fn read(&mut self) -> Result<Option<Bytes>, h2::Error> {
        if !self.unread.is_empty() {
            return Ok(Some(std::mem::take(&mut self.unread).into()));
        }
        match wait("data", poll_fn(|cx| self.stream.poll_data(cx))) {
            None => Ok(None),
            Some(data) => {
                let data = data?;
                // Fails only where the stream has ended meanwhile.
                let _ = self.stream.flow_control().release_capacity(data.len());
                Ok(Some(data))
            }
        }
    }

    /// Reads so many bytes.
    pub fn read_exactly(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            match self.read() {
                Ok(Some(data)) => bytes.extend_from_slice(&data),
                Ok(None) => panic!("an end after {} bytes of {len}", bytes.len()),
                Err(error) => panic!("{error} after {} bytes of {len}", bytes.len()),
            }
        }
        self.unread = bytes.split_off(len);
        bytes
    }

    /// Reads up to the end; returns the data, and the trailers or the error in place of the end.
    pub fn read_to_end(&mut self) -> (Vec<u8>, Result<Trailers, h2::Error>) {
        let mut bytes = Vec::new();
        loop {
            match self.read() {
                Ok(Some(data)) => bytes.extend_from_slice(&data),
                Ok(None) => return (bytes, self.trailers()),
                Err(error) => return (bytes, Err(error)),
            }
        }
    }

    /// The trailers, after the data.
    pub fn trailers(&mut self) -> Result<Trailers, h2::Error> {
        let trailers = wait("trailers", poll_fn(|cx| self.stream.poll_trailers(cx)))?;
        Ok(trailers.map_or_else(Vec::new, |map| fields(&map)))
    }

    /// Whether the end has been reached.
    pub fn is_at_end(&self) -> bool {
        self.unread.is_empty() && self.stream.is_end_stream()
    }
}

pub(crate) fn header_map(fields: &[(&str, &str)]) -> HeaderMap {
    let field = |(name, value): &(&str, &str)| {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        (name, HeaderValue::from_bytes(value.as_bytes()).expect("a value"))
    };
    // Unlike `collect`, `append` keeps fields of one name apart.
    let mut map = HeaderMap::new();
    for (name, value) in fields.iter().map(field) {
        map.append(name, value);
    }
    map
}

pub(crate) fn fields(map: &HeaderMap) -> Trailers {
    map.iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}

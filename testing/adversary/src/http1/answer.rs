//! Answers, read strictly: what a client must never be sent is an error.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;

/// An answer as a strict reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status of the answer.
    pub status: u16,
    /// Names in lower case, and values.
    pub fields: Vec<(String, String)>,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// All of it came; else the connection ended first.
    pub is_whole: bool,
}

/// Reads answers from a connection.
#[derive(Debug)]
pub struct Answers {
    stream: TcpStream,
    unread: Vec<u8>,
    ended: bool,
}

/// The end of the connection in place of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// It has ended, after so many bytes of a head.
    Ended(usize),
    /// Bytes that are no answer.
    Malformed(String),
}

enum Framing {
    None,
    Length(usize),
    Chunked,
    UntilEnd,
}

impl Answer {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

impl Answers {
    /// Of this connection, which has a limit to how long a read may take.
    pub fn of(stream: TcpStream) -> Self {
        Self { stream, unread: Vec::new(), ended: false }
    }

    /// The next final answer; interim ones are passed over.
    pub fn next(&mut self, method: &str) -> Result<Answer, NoAnswer> {
        loop {
            let answer = self.read(method)?;
            if !(100..200).contains(&answer.status) || answer.status == 101 {
                return Ok(answer);
            }
        }
    }

    /// The rest of the data, up to the end.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.unread)
    }

    fn read(&mut self, method: &str) -> Result<Answer, NoAnswer> {
        let Some(end) = self.find(b"\r\n\r\n") else { return Err(NoAnswer::Ended(self.unread.len())) };
        let head: Vec<u8> = self.unread.drain(..end + 4).collect();
        let (status, fields) = parse(&head).ok_or_else(|| malformed(&head))?;
        let mut answer = Answer { status, fields, body: Vec::new(), is_whole: true };
        let framing = framing(&answer, method).ok_or_else(|| malformed(&head))?;
        match framing {
            Framing::None => {}
            Framing::Length(len) => {
                while self.unread.len() < len && self.more() {}
                answer.is_whole = self.unread.len() >= len;
                answer.body = self.unread.drain(..len.min(self.unread.len())).collect();
            }
            Framing::Chunked => answer.is_whole = self.chunks(&mut answer.body)?,
            Framing::UntilEnd => answer.body = self.rest(),
        }
        Ok(answer)
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> Result<bool, NoAnswer> {
        loop {
            let Some(end) = self.find(b"\r\n") else { return Ok(false) };
            let line: Vec<u8> = self.unread.drain(..end + 2).collect();
            let size =
                std::str::from_utf8(&line[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
            let Some(size) = size else { return Err(malformed(&line)) };
            if size == 0 {
                return self.trailers();
            }
            while self.unread.len() < size + 2 && self.more() {}
            if self.unread.len() < size + 2 {
                body.append(&mut self.unread);
                return Ok(false);
            }
            body.extend(self.unread.drain(..size));
            let end: Vec<u8> = self.unread.drain(..2).collect();
            if end != b"\r\n" {
                return Err(malformed(&end));
            }
        }
    }

    fn trailers(&mut self) -> Result<bool, NoAnswer> {
        loop {
            let Some(end) = self.find(b"\r\n") else { return Ok(false) };
            let line: Vec<u8> = self.unread.drain(..end + 2).collect();
            if end == 0 {
                return Ok(true);
            }
            field(&line[..end]).ok_or_else(|| malformed(&line))?;
        }
    }

    fn find(&mut self, wanted: &[u8]) -> Option<usize> {
        loop {
            let found = self.unread.windows(wanted.len()).position(|window| window == wanted);
            if found.is_some() || !self.more() {
                return found;
            }
        }
    }

    fn more(&mut self) -> bool {
        let mut piece = [0; 16 * 1024];
        while !self.ended {
            match self.stream.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!(
                        "the connection neither goes on nor ends, after {:?}",
                        self.unread.escape_ascii().to_string()
                    )
                }
                Ok(len @ 1..) => {
                    self.unread.extend_from_slice(&piece[..len]);
                    return true;
                }
                Ok(0) | Err(_) => self.ended = true,
            }
        }
        false
    }
}

fn malformed(bytes: &[u8]) -> NoAnswer {
    NoAnswer::Malformed(bytes.escape_ascii().to_string())
}

fn parse(head: &[u8]) -> Option<(u16, Vec<(String, String)>)> {
    let text: String = head.iter().map(|byte| char::from(*byte)).collect();
    let mut lines = text.strip_suffix("\r\n\r\n")?.split("\r\n");
    let line = lines.next()?.strip_prefix("HTTP/1.1 ")?;
    let (status, rest) = line.split_at_checked(3)?;
    let is_line =
        status.bytes().all(|byte| byte.is_ascii_digit()) && (rest.is_empty() || rest.starts_with(' '));
    let status = status.parse().ok().filter(|status| is_line && (100..1000).contains(status))?;
    let fields = lines.map(|line| field(&line.chars().map(|char| char as u8).collect::<Vec<_>>()));
    Some((status, fields.collect::<Option<_>>()?))
}

fn field(line: &[u8]) -> Option<(String, String)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_name = !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(byte));
    let is_value = value.iter().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..));
    let text = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
    (is_name && is_value).then(|| (text(name).to_lowercase(), text(value.trim_ascii())))
}

/// `None` where two clients might see different ends.
fn framing(answer: &Answer, method: &str) -> Option<Framing> {
    let values = |wanted: &str| {
        let named = answer.fields.iter().filter(|(name, _)| name == wanted);
        named.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
    };
    let has_none = method == "HEAD" || matches!(answer.status, 100..200 | 204 | 304);
    match (&values("content-length")[..], &values("transfer-encoding")[..]) {
        ([], []) if has_none => Some(Framing::None),
        ([], []) => Some(Framing::UntilEnd),
        ([length], []) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
            let length = length.parse().ok()?;
            Some(if has_none { Framing::None } else { Framing::Length(length) })
        }
        ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => {
            Some(if has_none { Framing::None } else { Framing::Chunked })
        }
        _ => None,
    }
}

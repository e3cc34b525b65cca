//! One request on a connection of its own, and its answer; and requests for one host, one after the other.
//!
//! Must not be in here: load.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::Value;

const READ_LIMIT: Duration = Duration::from_secs(5);

/// A request to a server of the test bench, over HTTP/1.
pub(crate) struct Question<'a> {
    pub(crate) method: &'a str,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// The client's address; `None` for any.
    pub(crate) from: Option<Ipv4Addr>,
}

/// An answer, which ended with its connection.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Default for Question<'_> {
    fn default() -> Self {
        Question { method: "GET", host: "localhost", path: "/", headers: &[], from: None }
    }
}

impl Question<'_> {
    /// The whole answer, whatever its status.
    pub(crate) fn ask(&self, address: SocketAddr) -> Result<Answer> {
        let stream = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        if let Some(from) = self.from {
            bind(&stream, &SocketAddr::from((from, 0)))?;
        }
        connect(&stream, &address)?;
        let mut stream = TcpStream::from(stream);
        stream.set_read_timeout(Some(READ_LIMIT))?;
        let Question { method, host, path, .. } = self;
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{}\r\n",
            headers.concat()
        )?;
        Answer::read(stream)
    }
}

impl Answer {
    /// Reads it to the end of the connection.
    pub(crate) fn read(mut stream: TcpStream) -> Result<Answer> {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").context("no HTTP answer")?;
        let body = answer.split_off(end + 4);
        Answer::of(String::from_utf8_lossy(&answer).into_owned(), body)
    }

    /// One of a head and a body.
    pub(crate) fn of(head: String, body: Vec<u8>) -> Result<Answer> {
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        Ok(Answer { status, head, body })
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers(name).next()
    }

    /// The values of all headers of a name.
    pub(crate) fn headers(&self, name: &str) -> impl Iterator<Item = &str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.filter(move |(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// Where it sends its client; empty where it does not.
    pub(crate) fn location(&self) -> &str {
        self.header("location").unwrap_or_default()
    }

    /// The body, as far as it is text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("{}: {}", self.status, self.text()))
    }
}

/// The body of a GET, whose status must be 200.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<String> {
    let answer = Question { path, ..Question::default() }.ask(address)?;
    if answer.status != 200 {
        bail!("{address}{path}: status {}", answer.status);
    }
    Ok(answer.text())
}

/// The sum of a metric over its labels, from Forebay's admin port; `None` where there is no such metric.
pub(crate) fn metric(admin: SocketAddr, name: &str) -> Result<Option<f64>> {
    let page = get(admin, "/metrics")?;
    let samples =
        page.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    Ok(samples
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .reduce(|sum, value| sum + value))
}

/// Asks one host, on one connection for as long as it is kept.
pub(crate) struct Asker {
    address: SocketAddr,
    request: String,
    stream: Option<TcpStream>,
}

impl Asker {
    pub(crate) fn new(address: SocketAddr, host: &str) -> Asker {
        Asker { address, request: format!("GET /0 HTTP/1.1\r\nHost: {host}\r\n\r\n"), stream: None }
    }

    /// The status of an answer.
    pub(crate) fn status(&mut self) -> Result<u16> {
        let mut stream = self.stream.take().map_or_else(|| self.connect(), Ok)?;
        stream.write_all(self.request.as_bytes())?;
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let length = stream.read(&mut piece)?;
            ensure!(length > 0, "closed instead of an answer");
            answer.extend_from_slice(&piece[..length]);
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(Ok(0), str::parse::<usize>)? {
                self.stream = (!head.contains("connection: close")).then_some(stream);
                return Ok(head.split(' ').nth(1).context("no status")?.parse()?);
            }
        }
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_LIMIT))?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use bench::payload::Payload;

    use super::*;

    #[test]
    fn a_question_has_its_address_and_headers() -> Result<()> {
        let server = Payload::bind((Ipv4Addr::LOCALHOST, 0).into(), 1)?;
        let from = Some(Ipv4Addr::new(127, 0, 0, 9));
        let question = Question { path: "/echo", headers: &[("X-A", "b")], from, ..Question::default() };
        let answer = question.ask(server.local_addr())?;
        assert_eq!((answer.status, answer.header("content-TYPE")), (200, Some("application/json")));
        assert!(answer.text().contains("[\"X-A\",\"b\"]"), "{answer:?}");
        assert!(answer.text().contains("\"peer\":\"127.0.0.9:"), "{answer:?}");
        assert!(get(server.local_addr(), "/status/204").is_err());
        Ok(())
    }
}

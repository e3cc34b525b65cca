//! One request on a connection of its own, and its answer.
//!
//! Must not be in here: load.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

const READ_LIMIT: Duration = Duration::from_secs(5);

/// A request.
pub(crate) struct Question<'a> {
    pub(crate) method: &'a str,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// The client's address; `None` for any.
    pub(crate) from: Option<Ipv4Addr>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
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
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        // What is compressed is no text, and of no interest.
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        Ok(Answer { status, head: head.into(), body: body.into() })
    }
}

impl Answer {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// The body of a GET, whose status must be 200.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<String> {
    let answer = Question { path, ..Question::default() }.ask(address)?;
    if answer.status != 200 {
        bail!("{address}{path}: status {}", answer.status);
    }
    Ok(answer.body)
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
        assert!(answer.body.contains("[\"X-A\",\"b\"]"), "{answer:?}");
        assert!(answer.body.contains("\"peer\":\"127.0.0.9:"), "{answer:?}");
        assert!(get(server.local_addr(), "/status/204").is_err());
        Ok(())
    }
}

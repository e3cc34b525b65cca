//! The endpoints of the Services: each answers with the request as it got it, or as the request demands.
//!
//! Must not be in here: what is expected.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// A request as an endpoint tells of it.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Echo {
    pub(super) service: String,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    /// The length of the body.
    pub(super) bytes: usize,
}

/// The answer that the header `X-SERVICE` of a request demands, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Demand {
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
}

fn ok() -> u16 {
    200
}

/// Serves as the endpoint of a Service, for ever.
pub(crate) fn serve_forever(service: &str, listen: SocketAddr) -> Result<()> {
    for stream in TcpListener::bind(listen)?.incoming().filter_map(Result::ok) {
        let service = service.to_owned();
        // A client that goes away ends its connection only.
        thread::spawn(move || serve(&service, &stream));
    }
    Ok(())
}

fn serve(service: &str, stream: &TcpStream) -> Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some((echo, is_last)) = read(service, &mut reader)? {
        (&*stream).write_all(&answer(&echo)?)?;
        if is_last {
            break;
        }
    }
    Ok(())
}

/// Reads a request; whether it is the connection's last one. `None` at the end of the connection.
fn read(service: &str, reader: &mut impl BufRead) -> Result<Option<(Echo, bool)>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = words.next().zip(words.next()).context("no request line")?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').context("no header")?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    let is = |name: &str, word: &str| {
        headers
            .iter()
            .any(|(other, value)| other.eq_ignore_ascii_case(name) && value.eq_ignore_ascii_case(word))
    };
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let bytes = match length {
        Some((_, length)) => skip(reader, length.parse()?)?,
        None if is("transfer-encoding", "chunked") => skip_chunks(reader)?,
        None => 0,
    };
    let is_last = is("connection", "close");
    Ok(Some((Echo { service: service.to_owned(), method, target, headers, bytes }, is_last)))
}

fn skip(reader: &mut impl BufRead, bytes: usize) -> Result<usize> {
    let mut body = vec![0; bytes];
    reader.read_exact(&mut body)?;
    Ok(bytes)
}

fn skip_chunks(reader: &mut impl BufRead) -> Result<usize> {
    let mut bytes = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16)?;
        bytes += skip(reader, length)?;
        // The end of the chunk, or of trailers that nobody sends here.
        skip(reader, 2)?;
        if length == 0 {
            return Ok(bytes);
        }
    }
}

fn answer(echo: &Echo) -> Result<Vec<u8>> {
    let name = format!("x-{}", echo.service);
    let demand = echo.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(&name));
    let demand = demand.map_or("{}", |(_, value)| value);
    let Demand { status, headers, body } = serde_json::from_str(demand)?;
    let body = body.map_or_else(|| serde_json::to_string(echo), Ok)?;
    let mut head = format!("HTTP/1.1 {status} Demanded\r\nX-Service: {}\r\n", echo.service);
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n")?;
    }
    if !matches!(status, 204 | 304) {
        write!(head, "Content-Length: {}\r\n", body.len())?;
    }
    let body = if echo.method == "HEAD" || matches!(status, 204 | 304) { "" } else { &body };
    Ok(format!("{head}\r\n{body}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_and_demands_are_met() {
        let request =
            b"POST /a?b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
            3\r\nabc\r\n0\r\n\r\n";
        let (mut echo, is_last) = read("a", &mut &request[..]).expect("a request").expect("one");
        assert_eq!(
            (echo.method.as_str(), echo.target.as_str(), echo.bytes, is_last),
            ("POST", "/a?b", 3, true)
        );
        assert!(answer(&echo).expect("an answer").starts_with(b"HTTP/1.1 200 "));
        echo.headers.push(("X-A".into(), r#"{"status": 204, "headers": {"Allow": "GET"}}"#.into()));
        let text = String::from_utf8(answer(&echo).expect("an answer")).expect("text");
        assert_eq!(text, "HTTP/1.1 204 Demanded\r\nX-Service: a\r\nAllow: GET\r\n\r\n");
    }
}

//! A client of HTTP for the suites: one request, one connection, and cookies that are kept.
//!
//! Must not be in here: what a suite expects.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::ask::Answer;

const LIMIT: Duration = Duration::from_secs(20);
const REDIRECTS_MAX: usize = 10;

/// The answer to a request of HTTP/1.0, which ends with the connection.
pub(super) fn ask(address: SocketAddr, head: &str, body: &[u8]) -> Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    Answer::read(stream)
}

/// Someone's browser: hosts that end in `.test` are Forebay's, every other one is an address.
pub(super) struct Browser {
    forebay: SocketAddr,
    /// Of the hosts that are Forebay's.
    pub(super) cookies: BTreeMap<String, String>,
}

impl Browser {
    pub(super) fn new(forebay: SocketAddr) -> Self {
        Self { forebay, cookies: BTreeMap::new() }
    }

    /// Asks for a URL, and goes nowhere from there.
    pub(super) fn get(&mut self, url: &str) -> Result<Answer> {
        let rest = url.strip_prefix("http://").with_context(|| format!("{url:?} is no URL in clear"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_forebay = Self::is_forebay(host);
        let address = if is_forebay { self.forebay } else { host.parse().context(host.to_owned())? };
        let cookies: Vec<_> = self
            .cookies
            .iter()
            .filter(|_| is_forebay)
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let cookies =
            if cookies.is_empty() { String::new() } else { format!("Cookie: {}\r\n", cookies.join("; ")) };
        let head = format!(
            "GET /{path} HTTP/1.0\r\nHost: {host}\r\nUser-Agent: conformance\r\nAccept: text/html, */*\r\n{cookies}\r\n"
        );
        let answer = ask(address, &head, b"")?;
        if is_forebay {
            self.keep(&answer);
        }
        Ok(answer)
    }

    /// Asks for a URL, and goes where it is sent; the answer, and all URLs on the way, the last one where it
    /// came from.
    pub(super) fn visit(&mut self, url: &str) -> Result<(Answer, Vec<String>)> {
        let mut way = vec![url.to_owned()];
        while way.len() <= REDIRECTS_MAX {
            let here = way.last().cloned().unwrap_or_default();
            let answer = self.get(&here)?;
            let location = answer.location();
            if !(300..400).contains(&answer.status) || location.is_empty() {
                return Ok((answer, way));
            }
            let origin = here.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
            let next =
                if location.starts_with('/') { format!("{origin}{location}") } else { location.to_owned() };
            way.push(next);
        }
        bail!("it goes round in circles: {way:?}")
    }

    fn is_forebay(host: &str) -> bool {
        host.split(':').next().and_then(|name| name.rsplit('.').next()) == Some("test")
    }

    fn keep(&mut self, answer: &Answer) {
        for cookie in answer.headers("set-cookie") {
            let mut parts = cookie.split(';').map(str::trim);
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { continue };
            let is_over = |part: &str| part.starts_with("expires=Thu, 01 Jan 1970") || part == "max-age=0";
            if value.is_empty()
                || parts
                    .any(|part| is_over(&part.replace("Expires", "expires").replace("Max-Age", "max-age")))
            {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_kept_until_they_are_over() {
        let mut browser = Browser::new(SocketAddr::from(([127, 0, 0, 1], 1)));
        let answer = |fields: &str| {
            Answer::of(format!("HTTP/1.1 200 OK\r\n{fields}\r\n"), Vec::new()).expect("a head")
        };
        browser.keep(&answer("Set-Cookie: a=1; Path=/\r\nset-cookie: b=2\r\n"));
        assert_eq!(browser.cookies.keys().collect::<Vec<_>>(), ["a", "b"]);
        browser.keep(&answer(
            "Set-Cookie: a=; Path=/\r\nSet-Cookie: b=3; Expires=Thu, 01 Jan 1970 00:00:00 GMT\r\n",
        ));
        assert!(browser.cookies.is_empty());
    }
}

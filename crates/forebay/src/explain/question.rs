//! A request to explain: the user's description, and the head made from it.

use std::fmt::Write;
use std::fs;
use std::net::IpAddr;

use anyhow::{Context, bail};
use http::Uri;
use hyper::body::Bytes;

use crate::cli;
use crate::query::{decode, encode};

/// Longest question in bytes; a head that is longer is refused by default.
pub(crate) const QUESTION_BYTES_MAX: usize = 16 << 10;

/// Longest body of a request to explain, in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 20;

/// A request to explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) url: String,
    pub(crate) method: String,
    /// Headers in the form `Name: value`.
    pub(crate) headers: Vec<String>,
    pub(crate) client: IpAddr,
    /// Empty without a body.
    pub(crate) body: Bytes,
}

/// The same as a client would send it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) is_tls: bool,
    pub(super) port: u16,
    pub(super) server_name: Option<String>,
    pub(super) head: String,
}

impl Question {
    /// The head that a client sends: its request line, `Host` unless the user gives another one, and the
    /// user's headers.
    pub(super) fn sent(&self) -> anyhow::Result<Sent> {
        let uri: Uri = self.url.parse().with_context(|| format!("{} is no URL", self.url))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => bail!("{} is no URL that begins with http:// or https://", self.url),
        };
        let authority = uri.authority().with_context(|| format!("{} names no host", self.url))?;
        let host = authority.host();
        if authority.as_str().contains('@') || host.is_empty() {
            bail!("{}: a URL with a host and without a password is needed", self.url);
        }
        let parts = self.headers.iter().chain([&self.method]);
        if parts.clone().any(|text| text.contains(['\r', '\n'])) {
            bail!("a method or header has more than one line");
        }
        if let Some(odd) = self.headers.iter().find(|header| !header.contains(':')) {
            bail!("{odd:?} is no header: NAME: VALUE");
        }
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let mut head = format!("{} {target} HTTP/1.1\r\n", self.method);
        let is_host =
            |header: &String| header.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("host"));
        if !self.headers.iter().any(is_host) {
            let _ = write!(head, "Host: {authority}\r\n");
        }
        self.headers.iter().for_each(|header| head.extend([header, "\r\n"]));
        if !self.body.is_empty() {
            self.frame(&mut head)?;
        }
        head.push_str("\r\n");
        if head.len() > QUESTION_BYTES_MAX {
            bail!("the request is longer than {QUESTION_BYTES_MAX} bytes");
        }
        let is_name = host.trim_matches(['[', ']']).parse::<IpAddr>().is_err();
        let server_name = (is_tls && is_name).then(|| host.to_owned());
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        Ok(Sent { is_tls, port, server_name, head })
    }

    /// Adds the length of the body to the head that it belongs to.
    fn frame(&self, head: &mut String) -> anyhow::Result<()> {
        let length = self.body.len();
        if length > BODY_BYTES_MAX {
            bail!("the body is longer than {BODY_BYTES_MAX} bytes");
        }
        let mut fields = self.headers.iter().filter_map(|header| header.split_once(':'));
        if fields.clone().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding")) {
            bail!("the body is sent by its length: leave Transfer-Encoding out");
        }
        match fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
            Some((_, said)) if said.trim() == length.to_string() => {}
            Some((_, said)) => bail!("Content-Length is{said}, and the body has {length} bytes"),
            None => _ = write!(head, "Content-Length: {length}\r\n"),
        }
        Ok(())
    }

    /// The target of the query to an admin server.
    ///
    /// # Errors
    ///
    /// The question is no valid request.
    pub(crate) fn target(&self) -> anyhow::Result<String> {
        self.sent()?;
        Ok(format!("/explain?{}", self.query()))
    }

    /// The question as the query of a URL.
    fn query(&self) -> String {
        let client = self.client.to_string();
        let pairs = [("url", self.url.as_str()), ("method", &self.method), ("client-ip", &client)];
        let headers = self.headers.iter().map(|header| ("header", header.as_str()));
        let pair = |(name, value)| format!("{name}={}", encode(value));
        pairs.into_iter().chain(headers).map(pair).collect::<Vec<_>>().join("&")
    }

    /// Reads a query that [`query`](Self::query) or a user wrote.
    pub(crate) fn of_query(query: &str) -> anyhow::Result<Self> {
        if query.len() > 3 * QUESTION_BYTES_MAX {
            bail!("the question is too long");
        }
        let mut url = None;
        let mut method = "GET".to_owned();
        let mut headers = Vec::new();
        let mut client = None;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value).with_context(|| format!("{name} cannot be read"))?;
            match name {
                "url" => url = Some(value),
                "method" => method = value,
                "header" => headers.push(value),
                "client-ip" => {
                    client = Some(value.parse().with_context(|| format!("{value} is no address"))?);
                }
                _ => bail!("unknown parameter {name}; there are url, method, header and client-ip"),
            }
        }
        let url = url.context("url is missing: /explain?url=https://www.example.com/")?;
        let client = client.unwrap_or_else(|| IpAddr::from([127, 0, 0, 1]));
        Ok(Self { url, method, headers, client, body: Bytes::new() })
    }
}

impl TryFrom<cli::Asked> for Question {
    type Error = anyhow::Error;

    fn try_from(asked: cli::Asked) -> anyhow::Result<Self> {
        let cli::Asked { url, method, headers, body, client_ip } = asked;
        let url = if url.contains("://") { url } else { format!("http://{url}") };
        let method = method.unwrap_or_else(|| if body.is_some() { "POST" } else { "GET" }.to_owned());
        let body = match body {
            Some(file) => fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?.into(),
            None => Bytes::new(),
        };
        Ok(Self { url, method, headers, client: client_ip, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(url: &str, headers: &[&str]) -> Question {
        let headers = headers.iter().map(|&header| header.to_owned()).collect();
        let client = [10, 0, 0, 1].into();
        Question { url: url.to_owned(), method: "GET".to_owned(), headers, client, body: Bytes::new() }
    }

    #[test]
    fn a_url_becomes_what_a_client_sends() {
        let sent = question("https://a.test/b%2fc?d#e", &["X-One: 1"]).sent().unwrap();
        assert_eq!(sent.head, "GET /b%2fc?d HTTP/1.1\r\nHost: a.test\r\nX-One: 1\r\n\r\n");
        assert_eq!((sent.is_tls, sent.port, sent.server_name.as_deref()), (true, 443, Some("a.test")));
        let sent = question("http://[::1]:8080", &["host: b.test"]).sent().unwrap();
        assert_eq!(sent.head, "GET / HTTP/1.1\r\nhost: b.test\r\n\r\n");
        assert_eq!((sent.is_tls, sent.port, sent.server_name), (false, 8080, None));
    }

    #[test]
    fn a_body_is_sent_by_its_length() {
        let sent = |headers: &[&str]| {
            let asked = Question { body: Bytes::from_static(b"q=1"), ..question("http://a.test", headers) };
            asked.sent().map(|sent| sent.head).map_err(|error| error.to_string())
        };
        assert_eq!(sent(&[]).unwrap(), "GET / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\n");
        assert!(sent(&["content-length: 3"]).unwrap().ends_with("content-length: 3\r\n\r\n"));
        assert_eq!(
            sent(&["Content-Length: 4"]).unwrap_err(),
            "Content-Length is 4, and the body has 3 bytes"
        );
        assert!(sent(&["Transfer-Encoding: chunked"]).is_err());
        let long = Question { body: vec![0; BODY_BYTES_MAX + 1].into(), ..question("http://a.test", &[]) };
        assert!(long.sent().is_err());
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for url in ["a.test/x", "ftp://a.test", "http://", "http://u:p@a/", "/x", ""] {
            assert!(question(url, &[]).sent().is_err(), "{url}");
        }
        assert!(question("http://a.test", &["X"]).sent().is_err());
        assert!(question("http://a.test", &["X: 1\r\nY: 2"]).sent().is_err());
        let long = format!("X: {}", "x".repeat(QUESTION_BYTES_MAX));
        assert!(question("http://a.test", &[&long]).sent().is_err());
    }

    #[test]
    fn a_question_goes_through_a_query() {
        let asked = question("http://a.test/?x=1&y=%20+z", &["Cookie: a=b; c=\"ä\"", "X: 1%"]);
        assert_eq!(Question::of_query(&asked.query()).unwrap(), asked);
        for wrong in ["", "url=%", "url=%4", "url=x&client-ip=me", "url=x&colour=red", "url=%ff"] {
            assert!(Question::of_query(wrong).is_err(), "{wrong}");
        }
    }
}

//! Responses as a client reads them. Written anew and plainly: what is tested must not judge itself.

use crate::Connection;

/// A response, with its headers as they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// `HTTP/1.1`
    pub version: String,
    /// Three digits.
    pub status: u16,
    /// What follows them.
    pub reason: String,
    /// Names and values, in order.
    pub headers: Vec<(String, String)>,
    /// The body, without its framing.
    pub body: Vec<u8>,
    /// Trailer fields.
    pub trailers: Vec<(String, String)>,
}

impl Response {
    pub(crate) fn read(connection: &mut Connection, method: &str) -> Self {
        let mut response = Self::from_head(&connection.read_head());
        let is_chunked = response.header("transfer-encoding").is_some();
        let length = response.header("content-length").map(|text| text.parse().expect("a length"));
        if method == "HEAD" || matches!(response.status, 100..200 | 204 | 304) {
            return response;
        }
        match (is_chunked, length) {
            (true, None) => response.read_chunks(connection),
            (false, Some(length)) => response.body = connection.read_exactly(length),
            (false, None) => response.body = connection.read_to_end().0,
            (true, Some(_)) => panic!("framed twice: {response:?}"),
        }
        response
    }

    fn from_head(head: &str) -> Self {
        let mut lines = head.trim_end().split("\r\n");
        let mut start = lines.next().unwrap_or_default().splitn(3, ' ');
        let mut word = || start.next().unwrap_or_default();
        Self {
            version: word().to_owned(),
            status: word().parse().unwrap_or_else(|_| panic!("no status: {head:?}")),
            reason: word().to_owned(),
            headers: lines.map(field).collect(),
            body: Vec::new(),
            trailers: Vec::new(),
        }
    }

    fn read_chunks(&mut self, connection: &mut Connection) {
        loop {
            let line = connection.read_line();
            let len = usize::from_str_radix(&line, 16).unwrap_or_else(|_| panic!("no chunk size: {line:?}"));
            if len == 0 {
                break;
            }
            self.body.extend(connection.read_exactly(len));
            assert_eq!(connection.read_line(), "", "after a chunk");
        }
        loop {
            match connection.read_line() {
                line if line.is_empty() => return,
                line => self.trailers.push(field(&line)),
            }
        }
    }

    /// The value of a header, whatever its letter case; all of them if it came several times.
    pub fn header(&self, name: &str) -> Option<String> {
        let named = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let values: Vec<&str> = named.map(|(_, value)| value.as_str()).collect();
        if values.is_empty() { None } else { Some(values.join(", ")) }
    }

    /// Names of all headers.
    pub fn names(&self) -> Vec<&str> {
        self.headers.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    /// Status and body, which is what most tests are about.
    pub fn said(&self) -> (u16, &str) {
        (self.status, self.text())
    }
}

fn field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no header: {line:?}"));
    (name.to_owned(), value.trim().to_owned())
}

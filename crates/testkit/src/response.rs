//! Responses from a client's view. Written independently of the proxy: the code under test must not judge
//! itself.

/// A response, with its headers as they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The version, as in `HTTP/1.1`.
    pub version: String,
    /// The status code.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// Names and values, in order.
    pub headers: Vec<(String, String)>,
    /// The body, without its framing.
    pub body: Vec<u8>,
    /// Fields of the trailers, in order.
    pub trailers: Vec<(String, String)>,
}

impl Response {
    /// A response without its body, from the lines of its head.
    pub(crate) fn from_head(head: &str) -> Self {
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

    /// Status and body, which most tests compare.
    pub fn said(&self) -> (u16, &str) {
        (self.status, self.text())
    }
}

/// The name and value in a line of a head.
pub(crate) fn field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no header: {line:?}"));
    (name.to_owned(), value.trim().to_owned())
}

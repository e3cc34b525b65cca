/// HTTP/1 versions (RFC 9112 section 2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Version 1.0 (RFC 1945).
    Http10,
    /// Version 1.1 (RFC 9112).
    #[default]
    Http11,
}

/// The reason for refusing a head or a body. Each is counted under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The request or status line is not of the form of RFC 9112 section 3 or 4.
    #[error("malformed request or status line")]
    StartLine,
    /// The version is neither 1.0 nor 1.1.
    #[error("unsupported HTTP version")]
    Version,
    /// A field name is empty or not a token (RFC 9110 section 5.1).
    #[error("malformed header name")]
    FieldName,
    /// A field value holds control characters (RFC 9110 section 5.5).
    #[error("malformed header value")]
    FieldValue,
    /// A line ends in LF without CR (RFC 9112 section 2.2).
    #[error("line ends in a bare LF")]
    BareLineFeed,
    /// A line begins with white space (RFC 9112 section 5.2).
    #[error("obsolete line folding")]
    ObsoleteFold,
    /// A name has white space before its colon (RFC 9112 section 5.1).
    #[error("white space before a header's colon")]
    SpaceBeforeColon,
    /// The head has more than [`FIELDS_MAX`](super::FIELDS_MAX) fields.
    #[error("too many headers")]
    TooManyFields,
    /// The request line is longer than allowed.
    #[error("request line too long")]
    LineTooLong,
    /// The head, or one line of it, is longer than allowed.
    #[error("head too large")]
    HeadTooLarge,
    /// A head of HTTP/1.1 has no host (RFC 9112 section 3.2).
    #[error("no Host")]
    MissingHost,
    /// The head has more than one `Host` (RFC 9112 section 3.2).
    #[error("more than one Host")]
    DuplicateHost,
    /// The value of `Host` is no host.
    #[error("malformed Host")]
    Host,
    /// The head has both `Content-Length` and `Transfer-Encoding` (RFC 9112 section 6.1).
    #[error("both Content-Length and Transfer-Encoding")]
    ConflictingFraming,
    /// `Content-Length` is repeated, or no number.
    #[error("malformed Content-Length")]
    ContentLength,
    /// The transfer coding is not `chunked` alone, or the version is HTTP/1.0.
    #[error("unsupported Transfer-Encoding")]
    TransferEncoding,
    /// `Expect` is not `100-continue` (RFC 9110 section 10.1.1).
    #[error("unsupported Expect")]
    Expect,
    /// A field concerns an HTTP/1 connection, which does not exist (RFC 9113 section 8.2.2).
    #[error("header that HTTP/2 does not have")]
    ForbiddenField,
    /// The request for another protocol cannot be forwarded.
    #[error("unsupported protocol")]
    Upgrade,
    /// The target has a bad escape or a NUL, or leaves the root.
    #[error("malformed target")]
    Target,
}

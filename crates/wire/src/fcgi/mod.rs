//! `FastCGI` 1.0, as a web server speaks it with an application in the role of a responder. Its specification
//! is <https://fastcgi-archives.github.io/FastCGI_Specification.html>; section numbers refer to it.
//!
//! A connection has a single request, and the application closes it afterwards: `FCGI_KEEP_CONN` is not set,
//! as by nginx.

mod content;
mod head;
mod params;
mod record;
mod stderr;

pub use content::Content;
pub(crate) use content::ContentPiece;
pub use head::{HeadEnd, write_response_head};
pub use params::{pairs, write_fields, write_pair};
pub use record::{
    HEADER_BYTES, InvalidRecord, Piece, RECORD_CONTENT_BYTES_MAX, Records, STDIN_END, stdin_header,
    write_begin, write_stdin,
};
pub use stderr::Stderr;

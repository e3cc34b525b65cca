//! The kinds and bounds of bodies, and the receiver of what they have.
//!
//! Never in here: the form of a body.

/// The parser of a body, as `ctl:requestBodyProcessor` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// A form: `application/x-www-form-urlencoded`.
    UrlEncoded,
    /// A form with files: `multipart/form-data`.
    Multipart,
    /// JSON, by RFC 8259.
    Json,
    /// XML, by version 1.0.
    Xml,
    /// Nothing is parsed.
    Raw,
}

/// The bounds and settings of a body's parser, from the directives.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `SecArgumentsLimit`: the number of arguments.
    pub arguments_max: usize,
    /// `SecRequestBodyJsonDepthLimit`: containers in each other.
    pub json_depth_max: usize,
    /// `SecRequestBodyNoFilesLimit`: bytes of a body without those of files.
    pub no_files_bytes_max: usize,
    /// `SecUploadFileLimit`: the number of files.
    pub files_max: usize,
    /// `SecArgumentSeparator`, `&` unless set.
    pub separator: u8,
    /// Elements, attributes and texts of XML are passed on one by one.
    pub xml_nodes: bool,
}

/// The place of a name and value that a body had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `ARGS_POST`: the name and the value of an argument.
    Argument,
    /// `FILES`: the name of the form's field, and the name of the file.
    File,
    /// `FILES_SIZES`: the name of the form's field, and the size as decimal digits.
    FileSize,
    /// `MULTIPART_FILENAME`: the name of a file.
    MultipartFilename,
    /// `MULTIPART_NAME`: the name of a form's field.
    MultipartName,
    /// `MULTIPART_PART_HEADERS`: the name of the form's field, and one header line.
    PartHeader,
    /// `XML:/*`: the text of the document, without a name.
    XmlText,
    /// `XML://@*`: the name and the value of an attribute.
    XmlAttribute,
    /// A node of XML: its place, such as `/a/b/@c` or `/a/text()`, and its text.
    XmlNode,
}

/// A property of a multipart body that strict servers refuse; a variable `MULTIPART_...` has each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// `MULTIPART_BOUNDARY_QUOTED`: the boundary is in quotes.
    BoundaryQuoted,
    /// `MULTIPART_BOUNDARY_WHITESPACE`: white space around the boundary's `=`.
    BoundaryWhitespace,
    /// `MULTIPART_DATA_BEFORE`: lines before the first boundary.
    DataBefore,
    /// `MULTIPART_DATA_AFTER`: bytes after the final boundary.
    DataAfter,
    /// `MULTIPART_HEADER_FOLDING`: a header goes on in the next line.
    HeaderFolding,
    /// `MULTIPART_LF_LINE`: a line ends with LF alone.
    LfLine,
    /// `MULTIPART_CRLF_LF_LINES`: lines end with CRLF and with LF.
    CrlfLfLines,
    /// `MULTIPART_MISSING_SEMICOLON` (also called `MULTIPART_SEMICOLON_MISSING`).
    MissingSemicolon,
    /// `MULTIPART_INVALID_QUOTING`: single quotes in a `Content-Disposition`.
    InvalidQuoting,
    /// `MULTIPART_INVALID_PART`: a part has no name.
    InvalidPart,
    /// `MULTIPART_INVALID_HEADER_FOLDING`: another white space than a blank or a tab folds a header.
    InvalidHeaderFolding,
    /// `MULTIPART_FILE_LIMIT_EXCEEDED`: more files than `SecUploadFileLimit`.
    FileLimitExceeded,
    /// `MULTIPART_UNMATCHED_BOUNDARY`: a line looks like a boundary after the last one.
    UnmatchedBoundary,
}

impl Flag {
    /// All flags, in the order in which they are reported.
    pub const ALL: [Self; 13] = [
        Self::BoundaryQuoted,
        Self::BoundaryWhitespace,
        Self::DataBefore,
        Self::DataAfter,
        Self::HeaderFolding,
        Self::LfLine,
        Self::CrlfLfLines,
        Self::MissingSemicolon,
        Self::InvalidQuoting,
        Self::InvalidPart,
        Self::InvalidHeaderFolding,
        Self::FileLimitExceeded,
        Self::UnmatchedBoundary,
    ];
}

/// The receiver of what a body has: the variables of a transaction.
pub trait Sink {
    /// One name with its value.
    fn item(&mut self, place: Place, name: &[u8], value: &[u8]);
    /// A flag of a multipart body is set.
    fn flag(&mut self, flag: Flag);
    /// The body could not be parsed: `REQBODY_ERROR` and `REQBODY_ERROR_MSG`.
    fn error(&mut self, message: &str);
}

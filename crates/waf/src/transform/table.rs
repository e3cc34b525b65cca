//! The table of transformations: one entry for each name that a rule can use.
//!
//! Never in here: what a transformation does.

/// Declares the transformations and their table.
macro_rules! transformations {
    ($($transformation:ident: $($name:literal)|+, $doc:literal;)+) => {
        /// One transformation of SecLang.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Transformation {
            $(#[doc = $doc] $transformation,)+
        }

        /// All transformations that a rule can name. `t:none` is not among them: it clears the list of a
        /// rule.
        pub const TRANSFORMATIONS: &[Entry] = &[
            $($(Entry { name: $name, doc: $doc, transformation: Transformation::$transformation },)+)+
        ];
    };
}

/// An entry of the table of transformations.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name that rules use; names are compared without regard to case.
    pub name: &'static str,
    /// The purpose of the transformation, in one line.
    pub doc: &'static str,
    /// The transformation that the name stands for.
    pub transformation: Transformation,
}

transformations! {
    Base64Decode: "base64Decode", "Base64 is decoded up to the first character that is not of its alphabet.";
    Base64DecodeExt: "base64DecodeExt", "Base64 is decoded; characters outside of its alphabet are skipped.";
    Base64Encode: "base64Encode", "The text becomes Base64, with padding.";
    CmdLine: "cmdLine", "A command line loses quotes and escapes of shells, and gets lower case and single spaces.";
    CompressWhitespace: "compressWhitespace", "A run of white space becomes one space.";
    CssDecode: "cssDecode", "Escapes of CSS 2 are decoded.";
    EscapeSeqDecode: "escapeSeqDecode", "Escapes of ANSI C are decoded.";
    HexDecode: "hexDecode", "Pairs of hexadecimal digits become bytes.";
    HexEncode: "hexEncode", "Each byte becomes two hexadecimal digits.";
    HtmlEntityDecode: "htmlEntityDecode", "Character references of HTML are decoded: numbers, and six names.";
    JsDecode: "jsDecode", "Escapes of JavaScript are decoded.";
    Length: "length", "The number of bytes, in decimal digits.";
    Lowercase: "lowercase", "ASCII letters become lower case.";
    Md5: "md5", "The MD5 digest as 16 bytes; usually followed by `hexEncode`.";
    NormalizePath: "normalizePath" | "normalisePath", "A path loses double slashes, and `.` and `..` segments.";
    NormalizePathWin: "normalizePathWin" | "normalisePathWin", "Backslashes become slashes; then as `normalizePath`.";
    ParityEven7bit: "parityEven7bit", "The top bit of each byte is set to make its parity even.";
    ParityOdd7bit: "parityOdd7bit", "The top bit of each byte is set to make its parity odd.";
    ParityZero7bit: "parityZero7bit", "The top bit of each byte is cleared.";
    RemoveComments: "removeComments", "Comments are removed: `/*...*/`, `<!--...-->`, and from `--` or `#` to the end.";
    RemoveCommentsChar: "removeCommentsChar", "The marks of comments are removed: `/*`, `*/`, `<!--`, `-->`, `--`, `#`.";
    RemoveNulls: "removeNulls", "NUL bytes are removed.";
    RemoveWhitespace: "removeWhitespace", "White space is removed, and no-break spaces with it.";
    ReplaceComments: "replaceComments", "Each comment `/*...*/` becomes one space, also one without an end.";
    ReplaceNulls: "replaceNulls", "NUL bytes become spaces.";
    Sha1: "sha1", "The SHA-1 digest as 20 bytes; usually followed by `hexEncode`.";
    SqlHexDecode: "sqlHexDecode", "Hexadecimal literals of SQL, such as `0x414243`, are decoded.";
    Trim: "trim", "White space at both ends is removed.";
    TrimLeft: "trimLeft", "White space at the beginning is removed.";
    TrimRight: "trimRight", "White space at the end is removed.";
    Uppercase: "uppercase", "ASCII letters become upper case.";
    UrlDecode: "urlDecode", "Percent-encoding is decoded, and `+` becomes a space.";
    UrlDecodeUni: "urlDecodeUni", "As `urlDecode`, and `%uHHHH` is decoded by the code page of `SecUnicodeMapFile`.";
    UrlEncode: "urlEncode", "All but letters, digits and `*` become percent-encoded, and a space becomes `+`.";
    Utf8ToUnicode: "utf8toUnicode", "Characters of UTF-8 beyond ASCII become `%uHHHH`.";
}

/// Finds a transformation by the name that rules use.
pub fn named(name: &str) -> Option<Transformation> {
    let entry = TRANSFORMATIONS.iter().find(|entry| entry.name.eq_ignore_ascii_case(name));
    entry.map(|entry| entry.transformation)
}

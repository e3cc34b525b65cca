//! Lists of words that are looked for at once (`@pm`, `@pmFromFile`).
//!
//! Never in here: files.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// A list of words; letters match in either case.
pub(crate) struct Words {
    automaton: AhoCorasick,
}

impl Words {
    /// Compiles a list.
    pub(crate) fn new(words: &[Vec<u8>]) -> Result<Words, String> {
        AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .prefilter(false)
            .build(words)
            .map(|automaton| Words { automaton })
            .map_err(|error| error.to_string())
    }

    /// Bytes that the list takes.
    pub(crate) fn memory(&self) -> usize {
        self.automaton.memory_usage()
    }

    /// The range of the first word in a text.
    pub(crate) fn find(&self, text: &[u8]) -> Option<Range<usize>> {
        self.automaton.find(text).map(|found| found.range())
    }
}

/// The words of `@pm`, separated by white space; bytes between `|` are hexadecimal, as in Snort.
pub(crate) fn of_argument(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let plain = unhexed(text)?;
    // White space that was hexadecimal belongs to its word.
    let mut words = vec![Vec::new()];
    for piece in plain {
        match piece {
            Byte::Typed(byte) if byte.is_ascii_whitespace() => words.push(Vec::new()),
            Byte::Typed(byte) | Byte::Coded(byte) => {
                if let Some(word) = words.last_mut() {
                    word.push(byte);
                }
            }
        }
    }
    words.retain(|word: &Vec<u8>| !word.is_empty());
    if words.is_empty() { Err("@pm needs words".to_owned()) } else { Ok(words) }
}

/// The words of a file, one on a line; lines that begin with `#` and empty lines are left out.
pub(crate) fn of_file(content: &[u8]) -> Vec<Vec<u8>> {
    content
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .map(<[u8]>::to_vec)
        .collect()
}

enum Byte {
    Typed(u8),
    Coded(u8),
}

fn unhexed(text: &str) -> Result<Vec<Byte>, String> {
    let mut bytes = Vec::new();
    for (index, part) in text.split('|').enumerate() {
        if index % 2 == 0 || !is_hexadecimal(part) {
            if index % 2 == 1 {
                bytes.push(Byte::Typed(b'|'));
            }
            bytes.extend(part.bytes().map(Byte::Typed));
            continue;
        }
        for pair in part.split_ascii_whitespace() {
            let byte =
                u8::from_str_radix(pair, 16).map_err(|_| format!("{pair} is not a hexadecimal byte"))?;
            bytes.push(Byte::Coded(byte));
        }
    }
    Ok(bytes)
}

fn is_hexadecimal(part: &str) -> bool {
    !part.trim().is_empty()
        && part.split_ascii_whitespace().all(|pair| pair.len() == 2 && u8::from_str_radix(pair, 16).is_ok())
}

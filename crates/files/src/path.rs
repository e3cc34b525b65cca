//! Names below the root: which may be requested.
//!
//! The kernel keeps every lookup below the root, whatever the name. The names refused here exist there, but
//! are not meant to be served.

use crate::limits::{ELEMENT_BYTES_MAX, PATH_BYTES_MAX};

/// The folder for certificate challenges and the like (RFC 8615): the only one with a leading dot whose files
/// are served.
const WELL_KNOWN: &[u8] = b".well-known";

/// Whether a name, relative to a served folder, may be looked up. It has no leading slash; a trailing one
/// means a folder. The empty name is the folder itself.
pub fn may_be_served(name: &[u8]) -> bool {
    if name.len() > PATH_BYTES_MAX || name.contains(&0) {
        return false;
    }
    let elements = name.strip_suffix(b"/").unwrap_or(name);
    let mut elements = elements.split(|&byte| byte == b'/').enumerate();
    name.is_empty() || elements.all(|(place, element)| may_be_element(element, place == 0))
}

fn may_be_element(element: &[u8], is_first: bool) -> bool {
    let is_hidden = element.first() == Some(&b'.') && !(is_first && element == WELL_KNOWN);
    !element.is_empty() && element.len() <= ELEMENT_BYTES_MAX && !is_hidden
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant_for_others_may_be_served() {
        for name in ["", "a", "a/", "a/b.c", "a..b", "...", ".well-known/acme", "a\\b", "..\\..\\etc"] {
            let hidden = name.starts_with('.') && !name.starts_with(".well-known");
            assert_eq!(may_be_served(name.as_bytes()), !hidden, "{name}");
        }
    }

    #[test]
    fn what_is_hidden_or_no_name_may_not() {
        let long = "x".repeat(256);
        let longest = "abcdefg/".repeat(600);
        for name in [
            "/",
            "/a",
            "a//b",
            ".",
            "..",
            "a/..",
            "../a",
            "a/./b",
            ".git/config",
            "a/.env",
            "a/.well-known/x",
            "a\0b",
        ]
        .into_iter()
        .chain([long.as_str(), longest.as_str()])
        {
            assert!(!may_be_served(name.as_bytes()), "{name}");
        }
    }
}

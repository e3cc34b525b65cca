//! Replacements of texts in the content of responses (nginx: `sub_filter`). Never in here: the search itself.

use serde::Serialize;

use crate::template::Template;

/// The replacements of texts in responses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replacements {
    /// The replacements; where several texts begin at the same place, the first one counts.
    pub texts: Vec<Replacement>,
    /// Media types of the responses, in lower case; `*` for all.
    pub media_types: Vec<String>,
    /// Replaces each text once, where it is found first.
    pub once: bool,
    /// Responses keep `Last-Modified`, and `ETag` as a weak one.
    pub keeps_last_modified: bool,
}

/// The replacement of a text, whatever its letter case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replacement {
    /// The text to look for, not empty.
    pub from: String,
    /// The text that replaces it.
    pub to: Template,
}

impl Default for Replacements {
    fn default() -> Self {
        Self {
            texts: Vec::new(),
            media_types: vec!["text/html".to_owned()],
            once: true,
            keeps_last_modified: false,
        }
    }
}

impl Replacements {
    /// Whether contents of this type are searched.
    pub fn are_for(&self, media_type: &[u8]) -> bool {
        let is_type = |known: &String| known == "*" || known.as_bytes().eq_ignore_ascii_case(media_type);
        self.media_types.iter().any(is_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_searched_unless_other_types_are_named() {
        let mut replacements = Replacements::default();
        assert!(replacements.are_for(b"Text/HTML") && !replacements.are_for(b"text/css"));
        replacements.media_types.push("*".to_owned());
        assert!(replacements.are_for(b"text/css"));
    }
}

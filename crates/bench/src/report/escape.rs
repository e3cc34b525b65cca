//! Texts in HTML and XML.

/// A text escaped for an element or an attribute.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// A text without the characters that XML does not allow.
pub(super) fn printable(text: &str) -> String {
    let is_lost = |character: char| match character {
        '\n' | '\t' => false,
        '\u{fffe}' | '\u{ffff}' => true,
        _ => character.is_control(),
    };
    text.replace(is_lost, "\u{fffd}")
}

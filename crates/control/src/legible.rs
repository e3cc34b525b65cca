//! Texts from other parties, made safe for a terminal: characters that are invisible, or change how other
//! characters appear, are escaped.

use std::borrow::Cow;

/// Format characters (Unicode's `Cf`), and the separators of lines and paragraphs.
const FORMAT: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0001}', '\u{e007f}'),
];

/// Whether a character is a control or format character.
pub fn is_hidden(char: char) -> bool {
    char.is_control() || FORMAT.iter().any(|(first, last)| (*first..=*last).contains(&char))
}

/// A text on one line: hidden characters, ends of lines included, are escaped as `\u{1b}`.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// A text of several lines, with hidden characters escaped.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |char| char == '\n')
}

fn escaped(text: &str, passes: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |char: char| is_hidden(char) && !passes(char);
    if !text.contains(is_escaped) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if is_escaped(char) { out.extend(char.escape_unicode()) } else { out.push(char) }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_hidden_passes() {
        assert_eq!(line("a\u{1b}[31m\nb"), r"a\u{1b}[31m\u{a}b");
        assert_eq!(lines("a\u{9b}31m\r\nb"), "a\\u{9b}31m\\u{d}\nb");
        assert_eq!(line("x\u{202e}y\u{85}\u{2028}\u{feff}"), r"x\u{202e}y\u{85}\u{2028}\u{feff}");
        assert!(matches!(lines("é\n\u{1f600}"), Cow::Borrowed(_)));
    }
}

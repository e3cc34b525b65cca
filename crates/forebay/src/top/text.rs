//! Names of others as text that a terminal only shows, and texts of a given width.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The signs that things are drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signs {
    /// Signs of Unicode.
    Unicode,
    /// For locales that have no others.
    Ascii,
}

impl Signs {
    /// The replacement for a character that is not shown.
    const fn replacement(self) -> char {
        match self {
            Self::Unicode => '\u{fffd}',
            Self::Ascii => '?',
        }
    }

    /// The sign of a shortened text.
    const fn ellipsis(self) -> &'static str {
        match self {
            Self::Unicode => "…",
            Self::Ascii => "~",
        }
    }

    /// The levels of a small chart, from nothing to most.
    pub(super) const fn levels(self) -> [char; 9] {
        match self {
            Self::Unicode => [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Self::Ascii => [' ', '.', '.', ':', '-', '=', '+', '*', '#'],
        }
    }

    /// The sign for an unknown number.
    pub(super) const fn nothing(self) -> &'static str {
        match self {
            Self::Unicode => "–",
            Self::Ascii => "-",
        }
    }

    pub(super) const fn at_most(self) -> &'static str {
        match self {
            Self::Unicode => "≤",
            Self::Ascii => "<=",
        }
    }

    pub(super) const fn microseconds(self) -> &'static str {
        match self {
            Self::Unicode => "µs",
            Self::Ascii => "us",
        }
    }

    /// The mark of the column by which a table is sorted.
    pub(super) const fn sorted(self) -> &'static str {
        match self {
            Self::Unicode => "▼",
            Self::Ascii => "v",
        }
    }

    /// A foreign text in a form that is safe for a terminal. Invisible characters are replaced: controls,
    /// with which escape sequences begin, those that change the direction of writing, and those without
    /// width.
    pub(super) fn clean(self, text: &str) -> String {
        let is_shown = |character: char| {
            character.width().is_some_and(|width| width > 0)
                && !is_directional(character)
                && (self == Self::Unicode || character.is_ascii())
        };
        text.chars().map(|one| if is_shown(one) { one } else { self.replacement() }).collect()
    }

    /// A text that is no wider than `width`; where it has to be cut, that is marked.
    pub(super) fn cut(self, text: &str, width: usize) -> String {
        if text.width() <= width {
            return text.to_owned();
        }
        let ellipsis = self.ellipsis();
        let Some(room) = width.checked_sub(ellipsis.width()) else { return String::new() };
        let mut used = 0;
        let kept = text.chars().take_while(|one| {
            used += one.width().unwrap_or(0);
            used <= room
        });
        kept.collect::<String>() + ellipsis
    }
}

/// Whether a character has a say in the direction of others (Unicode Standard Annex 9, section 2).
fn is_directional(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// A text with spaces behind it.
pub(super) fn left(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// A text with spaces before it.
pub(super) fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(text.width())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_as_text() {
        let of = |text| Signs::Unicode.clean(text);
        assert_eq!(of("\x1b[2Jshop\r\n\x07"), "\u{fffd}[2Jshop\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(
            of("a\u{202e}b\u{2066}c\u{200f}\u{200b}d\u{9b}2J"),
            "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}d\u{fffd}2J"
        );
        assert_eq!(of("/straße/商店"), "/straße/商店");
        assert_eq!(Signs::Ascii.clean("/straße/\x1b]0;x\x07"), "/stra?e/?]0;x?");
    }

    #[test]
    fn texts_are_cut_by_columns_and_it_is_said() {
        let long = "a".repeat(253);
        assert_eq!(Signs::Unicode.cut(&long, 5), "aaaa…");
        assert_eq!(Signs::Ascii.cut(&long, 5), "aaaa~");
        assert_eq!(Signs::Unicode.cut("商店商店", 6), "商店…", "half of a wide character is none");
        assert_eq!(Signs::Unicode.cut("shop", 4), "shop");
        assert_eq!(Signs::Unicode.cut("shop", 1), "…");
        assert_eq!(Signs::Unicode.cut("shop", 0), "");
        assert_eq!((left("商", 4), right("商", 4)), ("商  ".to_owned(), "  商".to_owned()));
    }
}

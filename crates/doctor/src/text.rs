//! Texts of checks: patterns and their values, so that they can be rendered in more than one language.
//!
//! Must not be in here: the patterns, which are in the checks, and their translations ([`crate::zh`]).

use std::fmt;

use crate::zh::catalogue;

/// A text that can be told in each language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// The same in each language: a number, a name, an operating system's error.
    Verbatim(String),
    /// An English pattern with a `{}` for each value, which is the key of its translation as well.
    Pattern(&'static str, Vec<Text>),
    /// One text after the other.
    Join(Vec<Text>),
}

/// A [`Text`] of a pattern and its values: `say!("{} of {} ports", used, all)`. There is no form but `{}`.
macro_rules! say {
    ($pattern:literal $(, $value:expr)* $(,)?) => {
        $crate::text::Text::Pattern(
            const {
                let values = <[&str]>::len(&[$(stringify!($value)),*]);
                assert!($crate::text::placeholders($pattern) == values, "a value for each placeholder");
                $pattern
            },
            vec![$($crate::text::Text::from(&$value)),*],
        )
    };
}
pub(crate) use say;

impl Text {
    /// Nothing, for a part of a text that is not always there.
    pub(crate) fn none() -> Text {
        Text::Join(Vec::new())
    }

    /// A text without values that stands in a table.
    pub(crate) fn fixed(text: &'static str) -> Text {
        Text::Pattern(text, Vec::new())
    }

    /// The English text.
    pub(crate) fn english(&self) -> String {
        self.to_string()
    }

    /// The Chinese text; a part without a translation stays English.
    pub(crate) fn chinese(&self) -> String {
        match self {
            Text::Verbatim(text) => text.clone(),
            Text::Join(parts) => parts.iter().map(Text::chinese).collect(),
            Text::Pattern(pattern, values) => {
                let values: Vec<String> = values.iter().map(Text::chinese).collect();
                translation(pattern).map_or_else(|| self.english(), |pattern| fill(pattern, &values))
            }
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Text::Verbatim(text) => out.write_str(text),
            Text::Join(parts) => parts.iter().try_for_each(|part| part.fmt(out)),
            Text::Pattern(pattern, values) => {
                let mut values = values.iter();
                let mut pieces = pattern.split("{}");
                out.write_str(pieces.next().unwrap_or_default())?;
                for piece in pieces {
                    if let Some(value) = values.next() {
                        value.fmt(out)?;
                    }
                    out.write_str(piece)?;
                }
                Ok(())
            }
        }
    }
}

impl FromIterator<Text> for Text {
    fn from_iter<I: IntoIterator<Item = Text>>(parts: I) -> Text {
        Text::Join(parts.into_iter().collect())
    }
}

impl From<&Text> for Text {
    fn from(text: &Text) -> Text {
        text.clone()
    }
}

impl From<&&Text> for Text {
    fn from(text: &&Text) -> Text {
        (*text).clone()
    }
}

/// Values that are the same in each language.
macro_rules! verbatim {
    ($($kind:ty)*) => {$(
        impl From<$kind> for Text {
            fn from(value: $kind) -> Text {
                Text::Verbatim(value.to_string())
            }
        }
    )*};
}
verbatim!(&str && str && &str & String && String & u32 && u32 & u64 && u64 & usize && usize & f64 && f64);

/// The number of `{}` in a pattern.
pub(crate) const fn placeholders(pattern: &str) -> usize {
    let bytes = pattern.as_bytes();
    let (mut number, mut index) = (0, 1);
    while index < bytes.len() {
        if bytes[index - 1] == b'{' && bytes[index] == b'}' {
            number += 1;
        }
        index += 1;
    }
    number
}

fn translation(pattern: &str) -> Option<&'static str> {
    catalogue().find(|(english, _)| *english == pattern).map(|(_, chinese)| *chinese)
}

/// A translation with its values in place of `{0}`, `{1}` and so on.
fn fill(translation: &str, values: &[String]) -> String {
    let mut filled = String::new();
    let mut rest = translation;
    while let Some(open) = rest.find('{') {
        filled.push_str(&rest[..open]);
        let inside = &rest[open + 1..];
        let placeholder = inside.split_once('}').and_then(|(number, after)| {
            let value = values.get(number.parse::<usize>().ok()?)?;
            Some((value, after))
        });
        // Commands have braces as well.
        if let Some((value, after)) = placeholder {
            filled.push_str(value);
            rest = after;
        } else {
            filled.push('{');
            rest = inside;
        }
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::table::all;

    /// The first words of texts without Chinese characters: commands, settings and names.
    const COMMANDS: &[&str] =
        &["sysctl -w ", "systemctl ", "echo ", "worker_processes ", "--workers=", "Pod ", "cgroup /"];

    /// The files of this crate, except for this one, whose patterns are examples.
    fn sources() -> Vec<PathBuf> {
        fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, files);
                } else if path.file_name().is_some_and(|name| name != "text.rs") {
                    files.push(path);
                }
            }
        }
        let mut files = Vec::new();
        walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
        files
    }

    /// The value of the string literal at the beginning of `source`.
    fn literal(source: &str) -> String {
        let mut characters = source.strip_prefix('"').expect("a literal").chars().peekable();
        let mut value = String::new();
        loop {
            match characters.next().expect("a literal has an end") {
                '"' => return value,
                '\\' => match characters.next().expect("something is escaped") {
                    // A line that goes on in the next, whose indentation is not part of the text.
                    '\n' => while characters.next_if(|character| character.is_whitespace()).is_some() {},
                    'n' => value.push('\n'),
                    character => value.push(character),
                },
                character => value.push(character),
            }
        }
    }

    /// The patterns of all uses of the macro.
    fn patterns() -> BTreeSet<String> {
        let mut patterns = BTreeSet::new();
        for path in sources() {
            let source = fs::read_to_string(&path).unwrap();
            for (begin, call) in source.match_indices("say!(") {
                patterns.insert(literal(source[begin + call.len()..].trim_start()));
            }
        }
        patterns
    }

    /// All texts that have to be translated.
    fn texts() -> BTreeSet<String> {
        let mut texts = patterns();
        texts.extend(all().map(|check| check.remedy.to_owned()));
        texts
    }

    fn is_chinese(character: char) -> bool {
        // Punctuation, ideographs, full-width forms.
        matches!(character, '\u{3000}'..='\u{303f}' | '\u{4e00}'..='\u{9fff}' | '\u{ff00}'..='\u{ffef}')
    }

    /// The placeholders of a translation.
    fn numbers(translation: &str) -> Vec<usize> {
        let mut numbers: Vec<usize> = translation
            .split('{')
            .skip(1)
            .filter_map(|after| after.split_once('}')?.0.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn a_pattern_is_filled_in_both_languages() {
        let share = say!("{}{}", "50 %", say!("; the fullest is {}", "0.0.0.0:80"));
        let text = say!("{} requests were counted by this replica alone, and {} were refused", 1_u64, share);
        assert_eq!(
            text.english(),
            "1 requests were counted by this replica alone, and 50 %; the fullest is 0.0.0.0:80 were refused"
        );
        assert_eq!(text.chinese(), "1 个请求由本副本单独计数，50 %；最满的是 0.0.0.0:80 个被拒绝");
        let joined: Text =
            [Text::none(), say!("{} ({})", "a", 2_usize), Text::from("{0}")].into_iter().collect();
        assert_eq!((joined.english(), joined.chinese()), ("a (2){0}".to_owned(), "a (2){0}".to_owned()));
    }

    #[test]
    fn values_may_change_places_and_braces_stay() {
        assert_eq!(fill("{1} {0}", &["a".to_owned(), "{0}".to_owned()]), "{0} a");
        assert_eq!(fill("{cpu: {0}m} {7} {", &["5".to_owned()]), "{cpu: 5m} {7} {");
        assert_eq!(placeholders("{cpu: {}m} {} {"), 2);
        let unknown = Text::fixed("this stands in no catalogue: {a}");
        assert_eq!(unknown.chinese(), unknown.english());
    }

    #[test]
    fn everything_is_translated_and_nothing_else() {
        let texts = texts();
        assert!(texts.len() > 200, "the sources were not read");
        let missing: Vec<_> = texts.iter().filter(|text| translation(text).is_none()).collect();
        assert!(missing.is_empty(), "without a translation: {missing:#?}");
        let unused: Vec<_> = catalogue().filter(|(english, _)| !texts.contains(*english)).collect();
        assert!(unused.is_empty(), "nothing says: {unused:#?}");
        let keys: BTreeSet<_> = catalogue().map(|(english, _)| english).collect();
        assert_eq!(keys.len(), catalogue().count(), "something is translated twice");
    }

    #[test]
    fn translations_have_the_same_values() {
        for (english, chinese) in catalogue() {
            let expected: Vec<usize> = (0..placeholders(english)).collect();
            assert_eq!(numbers(chinese), expected, "{english}\n{chinese}");
        }
    }

    #[test]
    fn translations_are_chinese_unless_they_are_commands() {
        for (english, chinese) in catalogue() {
            let is_command = COMMANDS.iter().any(|command| chinese.starts_with(command));
            let has_words = english.chars().any(char::is_alphabetic);
            assert!(chinese.chars().any(is_chinese) || is_command || !has_words, "{english}\n{chinese}");
            assert!(!chinese.ends_with('。'), "{chinese}");
        }
    }

    #[test]
    fn chinese_and_other_characters_stand_apart() {
        // Punctuation of either kind needs no space.
        let is_ideograph = |character| matches!(character, '\u{4e00}'..='\u{9fff}');
        let is_other = |character: char| character.is_ascii_alphanumeric() || "`%".contains(character);
        for (_, chinese) in catalogue() {
            let characters: Vec<char> = chinese.chars().collect();
            for pair in characters.windows(2) {
                let touches = (is_ideograph(pair[0]) && is_other(pair[1]))
                    || (is_other(pair[0]) && is_ideograph(pair[1]));
                assert!(!touches, "{chinese}");
            }
        }
    }
}

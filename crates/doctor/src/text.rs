//! What a check says: patterns and their values, so that it can be told in more than one language.
//!
//! Must not be in here: the patterns, which stand in the checks, and their translations ([`crate::zh`]).

use std::fmt;

use crate::zh::CATALOGUE;

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
    ($pattern:literal $(, $value:expr)* $(,)?) => {{
        const _: () = assert!(
            $crate::text::placeholders($pattern) == <[&str]>::len(&[$(stringify!($value)),*]),
            "a value for each placeholder"
        );
        $crate::text::Text::Pattern($pattern, vec![$($crate::text::Text::from(&$value)),*])
    }};
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

    /// The Chinese text; parts without a translation stay English.
    pub(crate) fn chinese(&self) -> String {
        match self {
            Text::Verbatim(text) => text.clone(),
            Text::Join(parts) => parts.iter().map(Text::chinese).collect(),
            Text::Pattern(pattern, values) => {
                let values: Vec<String> = values.iter().map(Text::chinese).collect();
                match translation(pattern) {
                    Some(translation) => fill(translation, &values),
                    None => fill(&numbered(pattern), &values),
                }
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
                for (index, piece) in pattern.split("{}").enumerate() {
                    if let Some(value) = values.next().filter(|_| index > 0) {
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
    let index = CATALOGUE.binary_search_by(|(english, _)| (*english).cmp(pattern)).ok()?;
    Some(CATALOGUE[index].1)
}

/// An English pattern with its placeholders numbered as those of a translation are.
fn numbered(pattern: &str) -> String {
    let mut numbered = String::new();
    for (index, piece) in pattern.split("{}").enumerate() {
        if index > 0 {
            numbered.push_str(&format!("{{{}}}", index - 1));
        }
        numbered.push_str(piece);
    }
    numbered
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
        rest = match placeholder {
            Some((value, after)) => {
                filled.push_str(value);
                after
            }
            None => {
                filled.push('{');
                inside
            }
        };
    }
    filled + rest
}

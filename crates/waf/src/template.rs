//! Texts with macros (`%{tx.score}`), parsed once.
//!
//! Never in here: values; the reader of a variable is an argument.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::tables::Names;
use crate::variables::{Shape, Variable};

/// One variable that a macro names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) variable: Variable,
    /// The name within a collection, in lower case.
    pub(crate) name: Option<Arc<[u8]>>,
    /// The slot of a name of `TX`.
    pub(crate) slot: Option<u32>,
}

/// A reader of variables.
pub(crate) trait Values {
    /// Appends the value of a variable; nothing if it has none.
    fn append(&self, reference: &Reference, out: &mut Vec<u8>);

    /// The value as a number: 0 if it has none or is not one.
    fn number(&self, reference: &Reference) -> i64;
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<[u8]>),
    Value(Reference),
}

/// A text with macros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: SmallVec<[Piece; 1]>,
}

impl Template {
    /// Parses a text. An error has the offset of the macro.
    pub(crate) fn parse(text: &str, names: &mut Names) -> Result<Template, (usize, String)> {
        let mut pieces = SmallVec::new();
        let mut rest = text;
        while let Some(start) = rest.find("%{") {
            let Some(length) = rest[start..].find('}') else { break };
            if start > 0 {
                pieces.push(Piece::Text(rest.as_bytes()[..start].into()));
            }
            let offset = text.len() - rest.len() + start;
            let name = &rest[start + 2..start + length];
            pieces.push(Piece::Value(reference(name, names).map_err(|message| (offset, message))?));
            rest = &rest[start + length + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.as_bytes().into()));
        }
        Ok(Template { pieces })
    }

    /// The text, if there is no macro.
    pub(crate) fn constant(&self) -> Option<&[u8]> {
        match &self.pieces[..] {
            [] => Some(b""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// True if it has no macro.
    pub(crate) fn is_constant(&self) -> bool {
        self.constant().is_some()
    }

    /// The text as a number, as `atoi` reads it.
    pub(crate) fn number(&self, values: &dyn Values) -> i64 {
        match &self.pieces[..] {
            [Piece::Text(text)] => number(text),
            [Piece::Value(reference)] => values.number(reference),
            _ => {
                let mut text = Vec::new();
                self.append(values, &mut text);
                number(&text)
            }
        }
    }

    /// Appends the text with the values of its macros.
    pub(crate) fn append(&self, values: &dyn Values, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Value(reference) => values.append(reference, out),
            }
        }
    }

    /// The text with the values of its macros.
    pub(crate) fn expand(&self, values: &dyn Values) -> Vec<u8> {
        let mut out = Vec::new();
        self.append(values, &mut out);
        out
    }
}

fn reference(text: &str, names: &mut Names) -> Result<Reference, String> {
    let (name, key) = match text.find(['.', ':']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let Some(variable) = Variable::named(name) else {
        return Err(format!("the macro names a variable that does not exist: {name}"));
    };
    let single = variable.entry().shape == Shape::Single;
    let name = key.filter(|_| !single).map(|key| Arc::from(key.to_ascii_lowercase().as_bytes()));
    let slot = match &name {
        Some(name) if variable == Variable::Tx => Some(names.slot(name)),
        _ => None,
    };
    Ok(Reference { variable, name, slot })
}

/// A number as C's `atoi` reads it: white space, a sign, digits; 0 if there is none.
pub(crate) fn number(text: &[u8]) -> i64 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] | rest => (false, rest),
    };
    let value = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0i64, |value, byte| value.saturating_mul(10).saturating_add(i64::from(byte - b'0')));
    if negative { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Values for Fixed {
        fn append(&self, reference: &Reference, out: &mut Vec<u8>) {
            out.extend_from_slice(reference.variable.name().as_bytes());
            out.extend_from_slice(reference.name.as_deref().unwrap_or_default());
        }

        fn number(&self, _reference: &Reference) -> i64 {
            7
        }
    }

    #[test]
    fn macros_are_replaced_and_the_rest_is_kept() {
        let cases = [
            ("", ""),
            ("100%", "100%"),
            ("a %{tx.Score}%{MATCHED_VAR} b", "a TXscoreMATCHED_VAR b"),
            ("%{request_headers.host}", "REQUEST_HEADERShost"),
            ("%{ARGS:q", "%{ARGS:q"),
        ];
        for (text, expected) in cases {
            let template = Template::parse(text, &mut Names::default()).expect(text);
            assert_eq!(String::from_utf8_lossy(&template.expand(&Fixed)), expected);
        }
        let problem = Template::parse("ab%{nothing.x}", &mut Names::default());
        assert_eq!(problem.map_err(|error| error.0), Err(2));
    }

    #[test]
    fn numbers_are_read_as_atoi_does() {
        let cases: [(&[u8], i64); 6] = [
            (b"12", 12),
            (b" -3x", -3),
            (b"x", 0),
            (b"", 0),
            (b"+4", 4),
            (b"99999999999999999999", i64::MAX),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text), expected);
        }
        let template = Template::parse("%{tx.a}", &mut Names::default()).expect("a template");
        assert_eq!(template.number(&Fixed), 7);
    }
}

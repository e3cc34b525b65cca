//! The parser of conditions. Each error says where it is.

use super::node::{Comparison, Node, Path, SyntaxError, Test};
use crate::json::{Number, Value};
use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_DEPTH_MAX};

#[derive(Clone, Debug, PartialEq)]
enum Lexeme {
    /// A keyword or a name.
    Word(String),
    Text(String),
    Number(Number),
    /// Operators and punctuation.
    Sign(&'static str),
}

struct Parser {
    lexemes: Vec<(usize, Lexeme)>,
    at: usize,
    /// The position behind the text.
    end: usize,
    depth: usize,
}

/// Signs, longer ones before their beginnings.
const SIGNS: &[&str] = &["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ",", "."];

pub(super) fn expression(text: &str) -> Result<Node, SyntaxError> {
    let mut parser = Parser::new(text)?;
    let node = parser.any()?;
    parser.finish()?;
    Ok(node)
}

pub(super) fn path(text: &str) -> Result<Path, SyntaxError> {
    let mut parser = Parser::new(text)?;
    let path = if parser.peek() == Some(&Lexeme::Sign("[")) {
        parser.steps(Vec::new())?
    } else {
        let first = parser.word("the name of a claim")?;
        parser.steps(vec![first])?
    };
    parser.finish()?;
    Ok(path)
}

fn error<T>(position: usize, message: impl Into<String>) -> Result<T, SyntaxError> {
    Err(SyntaxError { position, message: message.into() })
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || character == '-'
}

/// Splits a text into lexemes with their positions.
fn lexemes(text: &str) -> Result<Vec<(usize, Lexeme)>, SyntaxError> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut position = 1;
    while let Some(first) = rest.chars().next() {
        let (lexeme, bytes) = if first.is_whitespace() {
            (None, first.len_utf8())
        } else if first == '"' {
            let (value, bytes) = quoted(rest, position)?;
            (Some(Lexeme::Text(value)), bytes)
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (Some(Lexeme::Sign(sign)), sign.len())
        } else if is_word(first) {
            let (lexeme, bytes) = word(rest, position)?;
            (Some(lexeme), bytes)
        } else {
            return error(position, format!("{first:?} is not expected here"));
        };
        found.extend(lexeme.map(|lexeme| (position, lexeme)));
        let (taken, left) = rest.split_at(bytes);
        position += taken.chars().count();
        rest = left;
    }
    Ok(found)
}

/// A text in quotes, with the escapes of JSON.
fn quoted(rest: &str, position: usize) -> Result<(String, usize), SyntaxError> {
    let mut is_escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            '"' if !is_escaped => {
                let bytes = at + 1;
                return match serde_json::from_str(&rest[..bytes]) {
                    Ok(value) => Ok((value, bytes)),
                    Err(_) => error(position, "the text is no string of JSON"),
                };
            }
            _ => is_escaped = character == '\\' && !is_escaped,
        }
    }
    error(position, "the text has no end")
}

/// A word, or a number, which may have a fraction and an exponent.
fn word(rest: &str, position: usize) -> Result<(Lexeme, usize), SyntaxError> {
    let is_number = rest.trim_start_matches('-').starts_with(|character: char| character.is_ascii_digit());
    let part = |character: char| is_word(character) || (is_number && matches!(character, '.' | '+'));
    let bytes = rest.find(|character| !part(character)).unwrap_or(rest.len());
    let text = &rest[..bytes];
    if !is_number {
        return Ok((Lexeme::Word(text.to_owned()), bytes));
    }
    match serde_json::from_str(text) {
        Ok(number) => Ok((Lexeme::Number(number), bytes)),
        Err(_) => error(position, format!("{text:?} is no number")),
    }
}

impl Parser {
    fn new(text: &str) -> Result<Self, SyntaxError> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return error(1, format!("it has more than {EXPRESSION_BYTES_MAX} bytes"));
        }
        Ok(Self { lexemes: lexemes(text)?, at: 0, end: text.chars().count() + 1, depth: 0 })
    }

    fn peek(&self) -> Option<&Lexeme> {
        self.lexemes.get(self.at).map(|(_, lexeme)| lexeme)
    }

    fn position(&self) -> usize {
        self.lexemes.get(self.at).map_or(self.end, |(position, _)| *position)
    }

    fn fail<T>(&self, expected: &str) -> Result<T, SyntaxError> {
        error(self.position(), format!("{expected} is expected here"))
    }

    fn finish(&self) -> Result<(), SyntaxError> {
        if self.at == self.lexemes.len() { Ok(()) } else { self.fail("\"and\", \"or\" or the end") }
    }

    fn takes(&mut self, lexeme: &Lexeme) -> bool {
        let is_it = self.peek() == Some(lexeme);
        self.at += usize::from(is_it);
        is_it
    }

    fn takes_sign(&mut self, sign: &'static str) -> bool {
        self.takes(&Lexeme::Sign(sign))
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Lexeme::Word(known)) if known == word);
        self.at += usize::from(is_it);
        is_it
    }

    fn word(&mut self, expected: &str) -> Result<String, SyntaxError> {
        match self.peek().cloned() {
            Some(Lexeme::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.fail(expected),
        }
    }

    fn any(&mut self) -> Result<Node, SyntaxError> {
        let mut nodes = vec![self.all()?];
        while self.takes_word("or") {
            nodes.push(self.all()?);
        }
        Ok(single(nodes, Node::Any))
    }

    fn all(&mut self) -> Result<Node, SyntaxError> {
        let mut nodes = vec![self.not()?];
        while self.takes_word("and") {
            nodes.push(self.not()?);
        }
        Ok(single(nodes, Node::All))
    }

    fn not(&mut self) -> Result<Node, SyntaxError> {
        self.depth += 1;
        if self.depth > EXPRESSION_DEPTH_MAX {
            return error(self.position(), "it is nested too deeply");
        }
        let node = if self.takes_word("not") {
            Node::Not(Box::new(self.not()?))
        } else if self.takes_sign("(") {
            let node = self.any()?;
            if !self.takes_sign(")") {
                return self.fail("\")\"");
            }
            node
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn test(&mut self) -> Result<Node, SyntaxError> {
        if !self.takes_word("claims") {
            return self.fail("\"claims.NAME\", \"not\" or \"(\"");
        }
        let path = self.steps(Vec::new())?;
        let test = if self.takes_word("exists") {
            Test::Exists
        } else if self.takes_word("has") {
            Test::Has(self.value()?)
        } else if self.takes_word("in") {
            Test::In(self.list()?)
        } else if self.takes_sign("==") {
            Test::Equals(self.value()?)
        } else if self.takes_sign("!=") {
            Test::Differs(self.value()?)
        } else {
            let comparison = [
                ("<", Comparison::Less),
                ("<=", Comparison::AtMost),
                (">", Comparison::Greater),
                (">=", Comparison::AtLeast),
            ];
            let Some((_, comparison)) = comparison.into_iter().find(|(sign, _)| self.takes_sign(sign)) else {
                return self
                    .fail("\"==\", \"!=\", \"<\", \"<=\", \">\", \">=\", \"in\", \"has\" or \"exists\"");
            };
            Test::Compares(comparison, self.number()?)
        };
        Ok(Node::Test(path, test))
    }

    /// The rest of a path: `.name` and `["name"]`, at least one in all.
    fn steps(&mut self, mut names: Vec<String>) -> Result<Path, SyntaxError> {
        loop {
            if self.takes_sign(".") {
                names.push(self.word("the name of a claim")?);
            } else if self.takes_sign("[") {
                let Some(Lexeme::Text(name)) = self.peek().cloned() else {
                    return self.fail("the name of a claim in quotes");
                };
                self.at += 1;
                names.push(name);
                if !self.takes_sign("]") {
                    return self.fail("\"]\"");
                }
            } else if names.is_empty() {
                return self.fail("\".\" and the name of a claim");
            } else {
                return Ok(Path(names));
            }
        }
    }

    fn value(&mut self) -> Result<Value, SyntaxError> {
        let value = match self.peek() {
            Some(Lexeme::Text(text)) => Value::String(text.clone()),
            Some(Lexeme::Number(number)) => Value::Number(number.clone()),
            Some(Lexeme::Word(word)) if word == "true" => Value::Bool(true),
            Some(Lexeme::Word(word)) if word == "false" => Value::Bool(false),
            _ => return self.fail("a text in quotes, a number, true or false"),
        };
        self.at += 1;
        Ok(value)
    }

    fn number(&mut self) -> Result<f64, SyntaxError> {
        match self.peek() {
            Some(Lexeme::Number(number)) => {
                let number = number.as_f64().unwrap_or(f64::NAN);
                self.at += 1;
                Ok(number)
            }
            _ => self.fail("a number"),
        }
    }

    fn list(&mut self) -> Result<Vec<Value>, SyntaxError> {
        if !self.takes_sign("[") {
            return self.fail("a list in brackets");
        }
        let mut values = vec![self.value()?];
        while self.takes_sign(",") {
            values.push(self.value()?);
        }
        if self.takes_sign("]") { Ok(values) } else { self.fail("\",\" or \"]\"") }
    }
}

fn single(mut nodes: Vec<Node>, several: fn(Vec<Node>) -> Node) -> Node {
    if nodes.len() == 1 { nodes.remove(0) } else { several(nodes) }
}

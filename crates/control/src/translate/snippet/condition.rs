//! The conditions of `if`.

use model::{Check, Step, Test};

use super::parse::Directive;
use super::{Fault, Reader};

impl Reader<'_> {
    /// Reads `($x)`, `($x = text)`, `($x != text)`, and regular expressions with `~`, `~*`, `!~`, `!~*`.
    pub(super) fn condition(&self, directive: &Directive) -> Result<Test, Fault> {
        let words = inside_parentheses(&directive.words);
        let words = words.ok_or_else(|| directive.fault("has no condition in parentheses"))?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (subject, operator, text) = match words.as_slice() {
            [subject] => (subject, "", ""),
            [subject, operator, text] => (subject, *operator, *text),
            _ => return Err(directive.fault("has no condition that is understood")),
        };
        let name = subject.strip_prefix('$').filter(|name| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        });
        let name =
            name.ok_or_else(|| directive.fault(format!("asks for {subject:?}, which is no variable")))?;
        let (check, is_negated) = match operator {
            "" => (Check::IsTrue, false),
            "=" => (Check::Equals(self.template(directive, text)?), false),
            "!=" => (Check::Equals(self.template(directive, text)?), true),
            "~" => (Check::Matches(self.expression(directive, text, false)?), false),
            "~*" => (Check::Matches(self.expression(directive, text, true)?), false),
            "!~" => (Check::Matches(self.expression(directive, text, false)?), true),
            "!~*" => (Check::Matches(self.expression(directive, text, true)?), true),
            _ => return Err(directive.fault(format!("compares by {operator:?}, which is not understood"))),
        };
        Ok(Test { subject: self.template(directive, &format!("${{{name}}}"))?, check, is_negated })
    }
}

/// The names of the groups in a condition's expression, in their order: `(?<name>...)` and `(?P<name>...)`.
pub(super) fn group_names(words: &[String]) -> impl Iterator<Item = &str> {
    let has_names = |word: &&String| word.contains("(?<") || word.contains("(?P<");
    let pieces = words.iter().filter(has_names).flat_map(|word| word.split('(').skip(1));
    let named = pieces.filter_map(|piece| {
        let name = piece.strip_prefix("?<").or_else(|| piece.strip_prefix("?P<"))?;
        Some(name.split_once('>')?.0)
    });
    named.filter(|name| super::is_new_name(name))
}

impl Reader<'_> {
    /// The steps that give the named groups of a condition's expression to variables.
    pub(super) fn groups(&self, directive: &Directive) -> Result<Vec<Step>, Fault> {
        let mut steps = Vec::new();
        let mut number = 0;
        for word in
            directive.words.iter().filter(|word| group_names(std::slice::from_ref(*word)).next().is_some())
        {
            for piece in word.replace("\\(", "").split('(').skip(1) {
                let is_group =
                    !piece.starts_with('?') || group_names(&[format!("({piece}")]).next().is_some();
                number += usize::from(is_group);
                if let Some(name) = group_names(&[format!("({piece}")]).next()
                    && number <= 9
                {
                    steps.push(Step::Set(name.into(), self.template(directive, &format!("${number}"))?));
                }
            }
        }
        Ok(steps)
    }
}

/// The words without the parentheses around them.
fn inside_parentheses(words: &[String]) -> Option<Vec<String>> {
    let mut words = words.to_vec();
    let first = words.first_mut()?;
    *first = first.strip_prefix('(')?.to_owned();
    let last = words.last_mut()?;
    *last = last.strip_suffix(')')?.to_owned();
    if words.first().is_some_and(String::is_empty) {
        words.remove(0);
    }
    if words.last().is_some_and(String::is_empty) {
        words.pop();
    }
    Some(words)
}

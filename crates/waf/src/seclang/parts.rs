//! The three parts of a rule as text: targets, operator, actions.
//!
//! Never in here: tables of names.

/// A part of a word with its offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span<'a> {
    pub(crate) text: &'a str,
    /// The offset of the text in its word.
    pub(crate) offset: usize,
}

/// One target as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawTarget<'a> {
    pub(crate) name: Span<'a>,
    /// The text behind the colon, without slashes or quotes.
    pub(crate) selector: Option<Span<'a>>,
    /// True if the selector is an expression between slashes.
    pub(crate) expression: bool,
    /// True for `!`.
    pub(crate) excluded: bool,
    /// True for `&`.
    pub(crate) count: bool,
}

/// Splits targets at `|` and, as ModSecurity does, at commas; neither counts within an expression or quotes.
pub(crate) fn targets(text: &str) -> Vec<RawTarget<'_>> {
    let mut targets = Vec::new();
    let mut start = 0;
    while start <= text.len() {
        let length = target_length(&text[start..]);
        let part = &text[start..start + length];
        if !part.trim().is_empty() {
            targets.push(target(part, start));
        }
        start += length + 1;
    }
    targets
}

fn target_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let end = |from: usize| text[from..].find(['|', ',']).map_or(text.len(), |at| from + at);
    let Some(colon) = text.find(':').filter(|&colon| colon < end(0)) else { return end(0) };
    let xml = text[..colon].trim_start_matches(['!', '&', ' ']).eq_ignore_ascii_case("XML");
    match bytes.get(colon + 1) {
        Some(b'/') if !xml => expression_end(bytes, colon + 2).map_or(text.len(), end),
        Some(b'\'') => quote_end(bytes, colon + 2).map_or(text.len(), end),
        _ => end(colon),
    }
}

/// The offset behind the slash that ends an expression: the next one that a separator or the end follows.
fn expression_end(bytes: &[u8], from: usize) -> Option<usize> {
    let closes = |at: usize| bytes[at] == b'/' && matches!(bytes.get(at + 1), None | Some(b'|' | b','));
    (from..bytes.len()).find(|&at| closes(at) && bytes[at - 1] != b'\\').map(|at| at + 1)
}

fn quote_end(bytes: &[u8], from: usize) -> Option<usize> {
    (from..bytes.len()).find(|&at| bytes[at] == b'\'' && bytes[at - 1] != b'\\').map(|at| at + 1)
}

fn target(part: &str, offset: usize) -> RawTarget<'_> {
    let trimmed = part.trim();
    let mut offset = offset + part.len() - part.trim_start().len();
    let body = trimmed.trim_start_matches(['!', '&']);
    let marks = &trimmed[..trimmed.len() - body.len()];
    offset += marks.len();
    let (name, selector) = match body.split_once(':') {
        Some((name, selector)) => (name, Some(Span { text: selector, offset: offset + name.len() + 1 })),
        None => (body, None),
    };
    let selector = selector.map(|selector| within(selector, '\''));
    let slashes = |text: &str| text.len() > 1 && text.starts_with('/') && text.ends_with('/');
    let expression =
        !name.eq_ignore_ascii_case("XML") && selector.as_ref().is_some_and(|selector| slashes(selector.text));
    let selector = if expression { selector.map(|selector| within(selector, '/')) } else { selector };
    RawTarget {
        name: Span { text: name, offset },
        selector,
        expression,
        excluded: marks.contains('!'),
        count: marks.contains('&'),
    }
}

/// The text between two marks, if it is between marks.
fn within(span: Span<'_>, mark: char) -> Span<'_> {
    match span.text.strip_prefix(mark).and_then(|text| text.strip_suffix(mark)) {
        Some(text) => Span { text, offset: span.offset + 1 },
        None => span,
    }
}

/// An operator as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawOperator<'a> {
    /// True for `!`.
    pub(crate) negated: bool,
    /// The name behind `@`; `rx` if there is none.
    pub(crate) name: Span<'a>,
    pub(crate) argument: Span<'a>,
}

/// Splits an operator: `!@name argument`, or an expression alone.
pub(crate) fn operator(text: &str) -> RawOperator<'_> {
    let trimmed = text.trim_start();
    let mut offset = text.len() - trimmed.len();
    let (negated, body) = match trimmed.strip_prefix('!') {
        Some(body) => (true, body.trim_start()),
        None => (false, trimmed),
    };
    offset += trimmed.len() - body.len();
    let Some(named) = body.strip_prefix('@') else {
        let name = Span { text: "rx", offset };
        return RawOperator { negated, name, argument: Span { text: body, offset } };
    };
    let length = named.find(char::is_whitespace).unwrap_or(named.len());
    let argument = named[length..].trim_start();
    let start = offset + 1 + named.len() - argument.len();
    RawOperator {
        negated,
        name: Span { text: &named[..length], offset: offset + 1 },
        argument: Span { text: argument, offset: start },
    }
}

/// One action as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawAction {
    pub(crate) name: String,
    /// The text behind the colon, without quotes.
    pub(crate) value: Option<String>,
    /// The offset of the name.
    pub(crate) offset: usize,
    /// The offset of the value.
    pub(crate) value_offset: usize,
}

/// Splits actions at commas that are not within quotes.
pub(crate) fn actions(text: &str) -> Result<Vec<RawAction>, (usize, String)> {
    let mut actions = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b',' || bytes[at].is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let start = at;
        let mut colon = None;
        while at < bytes.len() && bytes[at] != b',' {
            match bytes[at] {
                b':' if colon.is_none() => colon = Some(at),
                b'\'' if colon.is_some() => {
                    at = closing_quote(bytes, at).ok_or((at, "a quote is not closed".to_owned()))?;
                }
                _ => {}
            }
            at += 1;
        }
        let end = colon.unwrap_or(at);
        let name = text[start..end].trim().to_ascii_lowercase();
        let value_start = colon.map_or(at, |colon| colon + 1);
        let value = colon.map(|_| unquoted(text[value_start..at].trim()));
        actions.push(RawAction { name, value, offset: start, value_offset: value_start });
    }
    Ok(actions)
}

/// A quote is closed by the next one that no backslash precedes.
fn closing_quote(bytes: &[u8], open: usize) -> Option<usize> {
    (open + 1..bytes.len()).find(|&at| bytes[at] == b'\'' && bytes[at - 1] != b'\\')
}

fn unquoted(text: &str) -> String {
    let inner = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    inner.unwrap_or(text).replace("\\'", "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A variable, its selector, and whether it is an expression, excluded, counted.
    type Found = (&'static str, Option<&'static str>, bool, bool, bool);

    #[test]
    fn targets_are_split_outside_of_expressions_and_quotes() {
        let cases: [(&str, &[Found]); 7] = [
            (
                "ARGS|ARGS_NAMES",
                &[("ARGS", None, false, false, false), ("ARGS_NAMES", None, false, false, false)],
            ),
            ("ARGS|!ARGS:a", &[("ARGS", None, false, false, false), ("ARGS", Some("a"), false, true, false)]),
            ("&REQUEST_HEADERS:Host", &[("REQUEST_HEADERS", Some("Host"), false, false, true)]),
            (
                "ARGS:/^a|b$/|FILES",
                &[("ARGS", Some("^a|b$"), true, false, false), ("FILES", None, false, false, false)],
            ),
            (
                "XML:/*|XML://@*",
                &[("XML", Some("/*"), false, false, false), ("XML", Some("//@*"), false, false, false)],
            ),
            (
                "REQUEST_COOKIES:/\\x22?\\x24Version/",
                &[("REQUEST_COOKIES", Some("\\x22?\\x24Version"), true, false, false)],
            ),
            ("ARGS:'/a|b/'", &[("ARGS", Some("a|b"), true, false, false)]),
        ];
        for (text, expected) in cases {
            let found: Vec<_> = targets(text)
                .into_iter()
                .map(|raw| {
                    (
                        raw.name.text,
                        raw.selector.map(|selector| selector.text),
                        raw.expression,
                        raw.excluded,
                        raw.count,
                    )
                })
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn operators_have_a_name_or_are_expressions() {
        let cases = [
            ("@rx  ^a b", (false, "rx", "^a b", 5)),
            ("!@eq 0", (true, "eq", "0", 5)),
            ("! @eq 0", (true, "eq", "0", 6)),
            ("^a$", (false, "rx", "^a$", 0)),
            ("@detectSQLi", (false, "detectSQLi", "", 11)),
        ];
        for (text, (negated, name, argument, offset)) in cases {
            let found = operator(text);
            let got = (found.negated, found.name.text, found.argument.text, found.argument.offset);
            assert_eq!(got, (negated, name, argument, offset), "{text}");
        }
    }

    #[test]
    fn actions_are_split_outside_of_quotes() {
        let found = actions("id:'1',   msg:'a, b\\'s', t:none,setvar:tx.a='b,c',chain").expect("actions");
        let found: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.value.as_deref())).collect();
        let expected = [
            ("id", Some("1")),
            ("msg", Some("a, b's")),
            ("t", Some("none")),
            ("setvar", Some("tx.a='b,c'")),
            ("chain", None),
        ];
        assert_eq!(found, expected);
        assert_eq!(actions("msg:'a").map_err(|error| error.0), Err(4));
    }
}

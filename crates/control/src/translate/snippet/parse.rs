//! The syntax of nginx's configuration: words, quotes, `;`, blocks and comments become a tree of directives
//! with their lines.
//!
//! Never in here: the meaning of a directive.

use super::Fault;

/// Longest snippet, in bytes.
const SNIPPET_BYTES_MAX: usize = 64 << 10;

/// The most nested blocks.
const NESTING_MAX: usize = 8;

/// A directive: its words, and its block if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) words: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
    /// The line of its name in the snippet, from 1.
    pub(super) line: u32,
}

impl Directive {
    /// A fault of this directive.
    pub(super) fn fault(&self, what: impl Into<String>) -> Fault {
        let what = format!("{:?} {}", clipped(&self.name), what.into());
        Fault { line: self.line, what, is_harmless: false }
    }

    /// The words of the directive, if their number is `N`.
    pub(super) fn arguments<const N: usize>(&self) -> Result<&[String; N], Fault> {
        let words = self.words.as_slice().try_into();
        words.map_err(|_| self.fault(format!("has {} arguments, and needs {N}", self.words.len())))
    }

    /// The block, or a fault if the directive has none.
    pub(super) fn inside(&self) -> Result<&[Self], Fault> {
        self.block.as_deref().ok_or_else(|| self.fault("has no block"))
    }
}

/// The beginning of a name, as part of a message.
fn clipped(name: &str) -> &str {
    &name[..name.floor_char_boundary(64)]
}

/// Parses a snippet.
///
/// # Errors
///
/// When it is too long, or is no configuration of nginx.
pub(super) fn parse(text: &str) -> Result<Vec<Directive>, Fault> {
    if text.len() > SNIPPET_BYTES_MAX {
        let what = format!("the snippet has more than {SNIPPET_BYTES_MAX} bytes");
        return Err(Fault { line: 1, what, is_harmless: false });
    }
    let mut tokens = Tokens { text, at: 0, line: 1 };
    // The directives of each open block, and the directive that the block belongs to.
    let mut open: Vec<(Directive, Vec<Directive>)> = Vec::new();
    let mut done: Vec<Directive> = Vec::new();
    let mut words: Vec<(String, u32)> = Vec::new();
    while let Some((token, line)) = tokens.next()? {
        let unexpected =
            |what: char| Fault { line, what: format!("unexpected {what:?}"), is_harmless: false };
        match token {
            Token::Word(word) => words.push((word, line)),
            Token::End => done.push(directive(&mut words).ok_or_else(|| unexpected(';'))?),
            Token::Open => {
                let directive = directive(&mut words).ok_or_else(|| unexpected('{'))?;
                if open.len() >= NESTING_MAX {
                    return Err(directive.fault(format!("stands in more than {NESTING_MAX} blocks")));
                }
                if directive.name.ends_with("_by_lua_block") {
                    if !tokens.pass_lua() {
                        return Err(directive.fault("has no '}' at its end"));
                    }
                    done.push(Directive { block: Some(Vec::new()), ..directive });
                    continue;
                }
                open.push((directive, std::mem::take(&mut done)));
            }
            Token::Close => {
                let closed = open.pop().filter(|_| words.is_empty());
                let (mut directive, outside) = closed.ok_or_else(|| unexpected('}'))?;
                directive.block = Some(std::mem::replace(&mut done, outside));
                done.push(directive);
            }
        }
    }
    if let Some(last) = directive(&mut words) {
        return Err(last.fault("has no ';' at its end"));
    }
    match open.pop() {
        Some((directive, _)) => Err(directive.fault("has no '}' at its end")),
        None => Ok(done),
    }
}

fn directive(words: &mut Vec<(String, u32)>) -> Option<Directive> {
    let mut words = std::mem::take(words).into_iter();
    let (name, line) = words.next()?;
    Some(Directive { name, words: words.map(|(word, _)| word).collect(), block: None, line })
}

enum Token {
    Word(String),
    /// The `;` at the end of a directive.
    End,
    /// The `{` before a block.
    Open,
    /// The `}` after a block.
    Close,
}

/// Splits a text as nginx does: a word ends at a blank, a `;` or a `{` that does not begin a `${name}`.
struct Tokens<'t> {
    text: &'t str,
    at: usize,
    line: u32,
}

impl Tokens<'_> {
    fn next(&mut self) -> Result<Option<(Token, u32)>, Fault> {
        self.pass_blanks();
        let line = self.line;
        let token = match self.rest().chars().next() {
            None => return Ok(None),
            Some(';') => self.single(Token::End),
            Some('{') => self.single(Token::Open),
            Some('}') => self.single(Token::Close),
            Some(quote @ ('"' | '\'')) => Token::Word(self.quoted(quote)?),
            Some(_) => Token::Word(self.bare()),
        };
        Ok(Some((token, line)))
    }

    /// Skips a program in Lua, whose first brace has been read, up to its last brace. Returns whether it has
    /// one.
    fn pass_lua(&mut self) -> bool {
        let (mut depth, mut quote, mut chars) = (1_u32, None, self.rest().char_indices().peekable());
        while let Some((at, char)) = chars.next() {
            match (quote, char) {
                (Some(_), '\\') => _ = chars.next(),
                (Some(end), char) if char == end => quote = None,
                (None, '"' | '\'') => quote = Some(char),
                (None, '-') if chars.peek().is_some_and(|(_, next)| *next == '-') => quote = Some('\n'),
                (None, '{') => depth += 1,
                (None, '}') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.pass(at + 1);
                return true;
            }
        }
        false
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn single(&mut self, token: Token) -> Token {
        self.at += 1;
        token
    }

    /// Skips `len` bytes.
    fn pass(&mut self, len: usize) {
        let lines = memchr::memchr_iter(b'\n', &self.rest().as_bytes()[..len]).count();
        self.line += u32::try_from(lines).unwrap_or(u32::MAX);
        self.at += len;
    }

    fn pass_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches(is_blank).len();
            let comment = rest[blanks..].starts_with('#');
            let end = if comment {
                rest[blanks..].find('\n').map_or(rest.len(), |end| blanks + end)
            } else {
                blanks
            };
            if end == 0 {
                return;
            }
            self.pass(end);
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, Fault> {
        let line = self.line;
        let inside = &self.rest()[1..];
        let Some(len) = end_of(inside, |_, char| char == quote) else {
            return Err(Fault { line, what: format!("a {quote} without its end"), is_harmless: false });
        };
        let word = unescaped(&inside[..len]);
        self.pass(len + 2);
        match self.rest().chars().next() {
            None | Some(';' | '{' | ')') => Ok(word),
            Some(next) if is_blank(next) => Ok(word),
            Some(next) => {
                let what = format!("unexpected {next:?} behind a {quote}");
                Err(Fault { line: self.line, what, is_harmless: false })
            }
        }
    }

    fn bare(&mut self) -> String {
        let rest = self.rest();
        let ends = |before: Option<char>, char: char| {
            is_blank(char) || char == ';' || (char == '{' && before != Some('$'))
        };
        let len = end_of(rest, ends).unwrap_or(rest.len());
        let word = unescaped(&rest[..len]);
        self.pass(len);
        word
    }
}

fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\r' | '\n')
}

/// The end of a word: the first character that ends it and that no backslash precedes.
fn end_of(text: &str, ends: impl Fn(Option<char>, char) -> bool) -> Option<usize> {
    let (mut before, mut is_escaped) = (None, false);
    for (at, char) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
            before = None;
            continue;
        }
        if char == '\\' {
            is_escaped = true;
        } else if ends(before, char) {
            return Some(at);
        }
        before = Some(char);
    }
    None
}

/// Resolves nginx's escapes; a backslash before any other character stays, for regular expressions.
fn unescaped(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut chars = word.chars().peekable();
    while let Some(char) = chars.next() {
        let escaped = (char == '\\').then(|| chars.peek().copied()).flatten();
        let meant = match escaped {
            Some(same @ ('"' | '\'' | '\\')) => same,
            Some('t') => '\t',
            Some('r') => '\r',
            Some('n') => '\n',
            _ => {
                out.push(char);
                continue;
            }
        };
        chars.next();
        out.push(meant);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        let directives = parse(text).unwrap();
        directives.into_iter().map(|one| [vec![one.name], one.words].concat()).collect()
    }

    #[test]
    fn words_are_told_apart() {
        assert_eq!(words("a b\tc;d;"), [vec!["a", "b", "c"], vec!["d"]]);
        assert_eq!(words("a \"b c\" 'd;e' f\\ g;"), [["a", "b c", "d;e", "f\\ g"]]);
        assert_eq!(words(r#"a "x\"y\\z\t\d" ${v}w $x;"#), [["a", "x\"y\\z\t\\d", "${v}w", "$x"]]);
        assert_eq!(words("# note; {\na b; # another }\n# last"), [["a", "b"]]);
        assert_eq!(words("if ($a = \"b\") { c; }")[0], ["if", "($a", "=", "b", ")"]);
        assert_eq!(words("a b#c;"), [["a", "b#c"]], "a comment begins a word");
        assert_eq!(words(""), Vec::<Vec<String>>::new());
    }

    #[test]
    fn blocks_hold_directives_and_lines_are_counted() {
        let directives = parse("\na {\n  b 'x\ny';\n  c { d; }\n}\ne;\n").unwrap();
        let lines = |directives: &[Directive]| -> Vec<_> {
            directives.iter().map(|one| (one.name.clone(), one.line)).collect()
        };
        assert_eq!(lines(&directives), [("a".to_owned(), 2), ("e".to_owned(), 7)]);
        let inside = directives[0].block.as_ref().unwrap();
        assert_eq!(lines(inside), [("b".to_owned(), 3), ("c".to_owned(), 5)]);
        assert_eq!(directives[1].block, None);
    }

    #[test]
    fn what_is_no_configuration_is_named_with_its_line() {
        let fault = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(fault("a;\nb"), "line 2: \"b\" has no ';' at its end");
        assert_eq!(fault("a;\nb {\n c;"), "line 2: \"b\" has no '}' at its end");
        assert_eq!(fault("a;\n\n}"), "line 3: unexpected '}'");
        assert_eq!(fault("a {\n b }"), "line 2: unexpected '}'");
        assert_eq!(fault(" ;"), "line 1: unexpected ';'");
        assert_eq!(fault("\n{}"), "line 2: unexpected '{'");
        assert_eq!(fault("a 'b;"), "line 1: a ' without its end");
        assert_eq!(fault("a\n\"b\"c;"), "line 2: unexpected 'c' behind a \"");
        assert_eq!(fault(&"a{".repeat(9)), "line 1: \"a\" stands in more than 8 blocks");
        assert!(fault(&"a;".repeat(40_000)).contains("65536 bytes"));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_every_fault_has_a_line(text in "[a-z$ {};\"'\\\\#()\n~é]{0,80}") {
            let lines = text.matches('\n').count() as u32 + 1;
            match parse(&text) {
                Ok(directives) => prop_assert!(directives.iter().all(|one| (1..=lines).contains(&one.line))),
                Err(fault) => prop_assert!((1..=lines).contains(&fault.line), "{}", fault),
            }
        }

        #[test]
        fn quoted_words_are_read_back(words in proptest::collection::vec("[a-z\"'\\\\{};# ]{0,12}", 1..5)) {
            let quoted: Vec<_> = words.iter().map(|word| {
                format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
            }).collect();
            let directives = parse(&format!("x {};", quoted.join(" "))).unwrap();
            prop_assert_eq!(&directives[0].words, &words);
        }
    }
}

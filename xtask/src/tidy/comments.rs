//! Rules for comments: more than two words, the subject first, and lines that are not too long.
//!
//! Must not be in here: whether a comment is true.

use super::Violation;
use super::files::File;
use super::lines::{WIDTH, can_be_broken};
use super::pages::prose;
use super::tokens::{Kind, tokens};

/// A comment needs more words than this.
const WORDS_FEW: usize = 2;
/// First words that stand for a subject which the reader has to guess.
const RIDDLES: [&str; 5] = ["Who", "What", "That", "Those", "Which"];

/// Lines of comments that follow each other, with one marker.
struct Comment<'a> {
    line: usize,
    indent: usize,
    marker: &'a str,
    lines: Vec<&'a str>,
}

pub(super) fn check(files: &[File]) -> Vec<Violation> {
    files.iter().flat_map(of_file).collect()
}

fn of_file(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut complain = |line, message: String| violations.push(Violation::new(&file.path, line, message));
    for comment in comments(&file.text) {
        let content = comment.lines.join("\n");
        let words: Vec<_> = content.split_whitespace().collect();
        let first = words.first().copied().unwrap_or_default();
        if words.len() <= WORDS_FEW && !is_marker(&content) {
            complain(comment.line, format!("`{}` says too little", content.trim()));
        }
        if RIDDLES.contains(&first) {
            complain(comment.line, format!("begins with `{first}`: name the subject first"));
        }
        for line in comment.too_long() {
            complain(line, format!("break the comment before character {WIDTH}"));
        }
    }
    violations
}

/// Whether a comment is a ruler of `=` or `-` between the parts of a file.
fn is_marker(content: &str) -> bool {
    let content = content.trim();
    content.is_empty() || content.starts_with("===") || content.starts_with("---")
}

impl Comment<'_> {
    fn too_long(&self) -> Vec<usize> {
        let text = self.lines.join("\n");
        let before = " ".repeat(self.indent + self.marker.len());
        let long = prose(&text).filter(|(_, line)| {
            !line.trim_start().starts_with('|') && can_be_broken(&format!("{before}{line}"))
        });
        long.map(|(number, _)| self.line + number - 1).collect()
    }
}

/// Comments on lines of their own.
fn comments(text: &str) -> Vec<Comment<'_>> {
    let lines: Vec<_> = text.lines().collect();
    let mut comments: Vec<Comment> = Vec::new();
    for token in tokens(text).into_iter().filter(|token| token.kind == Kind::Comment) {
        let line = lines[token.line - 1];
        let indent = line.len() - line.trim_start().len();
        let marker = ["///", "//!", "//"].into_iter().find(|marker| token.text.starts_with(marker));
        let Some(marker) = marker.filter(|_| line[indent..].starts_with(token.text.trim_end())) else {
            continue;
        };
        let content = &token.text[marker.len()..];
        let last = comments.last_mut();
        match last.filter(|last| last.marker == marker && last.line + last.lines.len() == token.line) {
            Some(last) => last.lines.push(content),
            None => comments.push(Comment { line: token.line, indent, marker, lines: vec![content] }),
        }
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str) -> String {
        let file = File { path: "a.rs".into(), text: text.to_owned() };
        let found = check(&[file]).into_iter().next();
        found.map(|violation| format!("{}: {}", violation.line, violation.message)).unwrap_or_default()
    }

    #[test]
    fn comments_of_one_or_two_words_are_found() {
        assert_eq!(first("\n    /// Its name.\n    name: String,\n"), "2: `Its name.` says too little");
        assert_eq!(first("// Bytes.\n"), "1: `Bytes.` says too little");
        assert_eq!(first("/// Bytes of the head,\n/// without it.\n// === impl Pool ===\nf(); // no\n"), "");
        assert_eq!(first("const A: &str = \"\n// A b.\n\";"), "");
    }

    #[test]
    fn comments_without_a_subject_are_found() {
        assert_eq!(first("/// Who asks for the page.\n"), "1: begins with `Who`: name the subject first");
        assert_eq!(first("/// The page is for those\n/// Who ask for it.\n"), "");
        assert_eq!(first("/// Whatever the page says.\n"), "");
    }

    #[test]
    fn long_lines_are_found() {
        let long = "word ".repeat(25);
        assert_eq!(first(&format!("/// A\n/// {long}\n")), "2: break the comment before character 110");
        assert_eq!(first(&format!("/// {}\n", "word ".repeat(20))), "");
        let deep = format!("{}// {}\n", " ".repeat(40), "word ".repeat(16));
        assert!(!first(&deep).is_empty(), "the indentation counts");
        assert_eq!(first(&format!("/// The page is\n/// <https://example.org/{}>\n", "x".repeat(120))), "");
        assert_eq!(first(&format!("/// ```text\n/// {long}\n/// ```\n/// | {long} |\n")), "");
    }
}

//! Lines of prose in the documentation, which fit a terminal and a diff.
//!
//! Must not be in here: lines of code, which rustfmt breaks.

use std::path::Path;

use super::Violation;
use super::files::File;
use super::pages::prose;

/// Characters, for all scripts.
pub(super) const WIDTH: usize = 110;
/// The history of changes, to which everybody adds at once.
const EXEMPT: &str = "CHANGELOG.md";
/// Signs behind which a line of Chinese can be broken.
const CHINESE_BREAKS: [char; 7] = ['，', '。', '；', '：', '、', '）', '？'];

pub(super) fn check(pages: &[File]) -> Vec<Violation> {
    let checked = pages.iter().filter(|page| page.path != Path::new(EXEMPT));
    checked.flat_map(too_long).collect()
}

fn too_long(page: &File) -> impl Iterator<Item = Violation> {
    let long = prose(&page.text).filter(|(_, line)| !is_whole(line) && can_be_broken(line));
    long.map(|(line, text)| {
        let count = text.chars().count();
        Violation::new(&page.path, line, format!("{count} characters: break the line before the {WIDTH}th"))
    })
}

/// Tables, headings, comments and images are single lines by the format.
fn is_whole(line: &str) -> bool {
    ["|", "#", "<!--", "!["].iter().any(|start| line.trim_start().starts_with(start))
}

/// Whether a line is too long, and has a place to break it that is neither in code nor in a link's address.
pub(super) fn can_be_broken(line: &str) -> bool {
    if line.chars().count() <= WIDTH {
        return false;
    }
    let text = line.trim_start().trim_start_matches("- ").trim_start();
    let indent = line.chars().count() - text.chars().count();
    let mut in_code = false;
    text.chars().take(WIDTH - indent).any(|one| {
        in_code ^= one == '`';
        !in_code && (one == ' ' || CHINESE_BREAKS.contains(&one))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(file: &str, text: &str) -> Vec<usize> {
        let page = File { path: file.into(), text: text.into() };
        check(&[page]).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn long_lines_of_prose_are_found() {
        let long = "word ".repeat(30);
        let chinese = "中文，".repeat(50);
        let text = format!("# A\n\n{long}\n- {long}\nshort\n{chinese}\n");
        assert_eq!(violations("docs/a.md", &text), [3, 4, 6]);
        assert!(violations("CHANGELOG.md", &text).is_empty());
    }

    #[test]
    fn what_cannot_be_broken_may_be_long() {
        let word = "x".repeat(120);
        let code = format!("`{}`", "a b ".repeat(40));
        let cells = format!("| {} |", "cell ".repeat(30));
        let block = "word ".repeat(30);
        let text =
            format!("{word}\n- {code}; end\n{cells}\n<!-- {block} -->\n    {block}\n```\n{block}\n```\n");
        assert!(violations("docs/a.md", &text).is_empty(), "{text}");
    }
}

//! Pages of documentation: every one is in the index, and their links lead somewhere.
//!
//! Must not be in here: what a page says; addresses of other sites, since nothing in a test reaches them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::Result;
use walkdir::WalkDir;

use super::Violation;
use super::files::{self, File};

const INDEX: &str = "docs/index.md";

/// The pages at the root of the workspace, and all of `docs`.
pub(super) fn read(root: &Path) -> Result<Vec<File>> {
    let mut pages = files::read(root, WalkDir::new(root).max_depth(1), "md")?;
    pages.extend(files::read(root, WalkDir::new(root.join("docs")), "md")?);
    Ok(pages)
}

pub(super) fn check(root: &Path, pages: &[File]) -> Vec<Violation> {
    let mut violations = not_in_the_index(pages);
    violations.extend(dead_links(pages, |path| root.join(path).exists()));
    violations
}

/// The pages of `docs` that the index has no link to.
fn not_in_the_index(pages: &[File]) -> Vec<Violation> {
    let index = pages.iter().find(|page| page.path == Path::new(INDEX));
    let named: BTreeSet<_> =
        index.into_iter().flat_map(links).filter_map(|link| Some(link.target(Path::new(INDEX))?.0)).collect();
    let missing = pages.iter().filter(|page| {
        page.path.starts_with("docs") && page.path != Path::new(INDEX) && !named.contains(&page.path)
    });
    missing.map(|page| Violation::new(&page.path, 1, format!("{INDEX} has no link to it"))).collect()
}

/// Links to files of the repository that are not there, and to headings that a page does not have.
fn dead_links(pages: &[File], exists: impl Fn(&Path) -> bool) -> Vec<Violation> {
    let anchors: BTreeMap<_, _> =
        pages.iter().map(|page| (page.path.as_path(), anchors(&page.text))).collect();
    let mut violations = Vec::new();
    for page in pages {
        for link in links(page) {
            let Some((file, anchor)) = link.target(&page.path) else { continue };
            let headings = anchors.get(file.as_path());
            let message = if !exists(&file) {
                format!("{} leads to a file that is not there", link.to)
            } else if headings.is_some_and(|there| !anchor.is_empty() && !there.contains(anchor)) {
                format!("{} leads to a heading that is not there", link.to)
            } else {
                continue;
            };
            violations.push(Violation::new(&page.path, link.line, message));
        }
    }
    violations
}

struct Link<'a> {
    line: usize,
    to: &'a str,
}

impl<'a> Link<'a> {
    /// The file, from the root of the workspace, and the heading in it, if the link stays in the repository.
    fn target(&self, from: &Path) -> Option<(PathBuf, &'a str)> {
        let (path, anchor) = self.to.split_once('#').unwrap_or((self.to, ""));
        let outside = path.contains(':') || path.starts_with('/');
        let target = if path.is_empty() { from.to_path_buf() } else { joined(from.parent()?, path) };
        (!outside).then_some((target, anchor))
    }
}

/// The path from a folder, without `..`.
fn joined(folder: &Path, path: &str) -> PathBuf {
    let mut joined = PathBuf::new();
    for component in folder.join(path).components() {
        match component {
            Component::ParentDir => drop(joined.pop()),
            Component::CurDir => {}
            other => joined.push(other),
        }
    }
    joined
}

/// The links of a page, but for what stands in code.
fn links(page: &File) -> impl Iterator<Item = Link<'_>> {
    prose(&page.text).flat_map(|(line, text)| {
        let outside_of_code = text.split('`').step_by(2).collect::<Vec<_>>();
        // A link's text may be code: only the bracket that closes it has to be outside.
        let ends = outside_of_code.into_iter().flat_map(|part| part.split("](").skip(1));
        ends.filter_map(move |rest| Some(Link { line, to: rest.split_once(')')?.0 }))
    })
}

/// The names under which headings can be linked to, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.strip_prefix(' ')).flatten()
    });
    headings.map(|title| anchor(title.trim())).collect()
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Lines with their numbers, but for blocks of code.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence && !line.starts_with("    ")).then_some((index + 1, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(file: &str, text: &str) -> File {
        File { path: file.into(), text: text.into() }
    }

    fn dead(pages: &[File]) -> Vec<String> {
        let there = |path: &Path| pages.iter().any(|page| page.path == path);
        dead_links(pages, there).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_page_is_in_the_index() {
        let index = page(INDEX, "[a](a.md#part) [b](zh-CN/b.md)\n    [c](c.md) is code\n");
        let others = ["docs/a.md", "docs/zh-CN/b.md", "docs/c.md", "README.md"].map(|file| page(file, ""));
        let pages: Vec<_> = [index].into_iter().chain(others).collect();
        let missing: Vec<_> = not_in_the_index(&pages).into_iter().map(|violation| violation.file).collect();
        assert_eq!(missing, [Path::new("docs/c.md")]);
    }

    #[test]
    fn without_an_index_every_page_is_missing_there() {
        assert_eq!(not_in_the_index(&[page("docs/a.md", "")]).len(), 1);
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let a = page(
            "docs/a.md",
            "# The `code` of A: 1.2\n\n[b](zh-CN/b.md) [up](../README.md#top-1) [here](#the-code-of-a-12)\n",
        );
        let b = page("docs/zh-CN/b.md", "## 出了问题时\n[a](../a.md#the-code-of-a-12) [同页](#出了问题时)\n");
        let readme =
            page("README.md", "# Top 1\n[site](https://example.com/x.md) [mail](mailto:x@example.com)\n");
        assert_eq!(dead(&[a, b, readme]), Vec::<String>::new());
    }

    #[test]
    fn a_dead_link_is_told_with_its_line() {
        let a = page("docs/a.md", "# A\n\nSee [b](b.md).\n[`code`](#b) [not](a.md#a)\n");
        let expected = [
            "docs/a.md:3: b.md leads to a file that is not there",
            "docs/a.md:4: #b leads to a heading that is not there",
        ];
        assert_eq!(dead(&[a]), expected);
    }

    #[test]
    fn code_has_no_links() {
        let a = page("a.md", "`[a](x.md)`\n    [b](x.md)\n```\n[c](x.md)\n```\n[d](x.md)\n");
        assert_eq!(dead(&[a]), ["a.md:6: x.md leads to a file that is not there"]);
    }
}

//! Translations of pages, which must not be older than what they translate.
//!
//! A translation opens with the page that it translates and a digest of that page as it was then: a clone
//! keeps no times of files, and the history does not say which lines have been translated. Must not be in
//! here: links (`pages`).

use std::path::Path;

use super::Violation;
use super::files::File;
use crate::dist::hex::sha256;

/// Hexadecimal digits of the hash that are written down. They tell versions of one page apart, and keep
/// nobody out.
const DIGITS: usize = 16;
const HEAD: &str = "<!-- translates ";
const HASH: &str = ", sha256 ";
const TAIL: &str = " -->";

pub(super) fn check(pages: &[File]) -> Vec<Violation> {
    let find = |file: &str| pages.iter().find(|page| page.path == Path::new(file));
    let translations = pages.iter().filter(|page| is_translation(&page.path));
    translations
        .filter_map(|page| judged(page, source(&page.text).and_then(|(file, _)| find(file))))
        .collect()
}

/// Whether the page is in another language by where it is: `README.zh-CN.md`, and all of a folder that is
/// named after a language.
fn is_translation(file: &Path) -> bool {
    let names_language = |name: &str| {
        name.split_once('-').is_some_and(|(language, region)| {
            language.len() == 2
                && language.bytes().all(|byte| byte.is_ascii_lowercase())
                && region.len() == 2
                && region.bytes().all(|byte| byte.is_ascii_uppercase())
        })
    };
    file.to_str().is_some_and(|file| file.split(['/', '.']).any(names_language))
}

fn judged(page: &File, source: Option<&File>) -> Option<Violation> {
    let message = match (self::source(&page.text), source) {
        (None, _) => format!("opens without `{HEAD}FILE{HASH}DIGEST{TAIL}`: say what it translates"),
        (Some((file, _)), None) => format!("translates {file}, which is not there"),
        (Some((file, written)), Some(source)) => {
            let digest = digest(&source.text);
            if written == digest {
                return None;
            }
            format!(
                "is older than {file}: bring it up to date with what changed there (`git log -p {file}`), then let its first line be \
                 `{HEAD}{file}{HASH}{digest}{TAIL}`"
            )
        }
    };
    Some(Violation::new(&page.path, 1, message))
}

/// The page that is translated and its digest then, of the first line.
fn source(text: &str) -> Option<(&str, &str)> {
    text.lines().next()?.strip_prefix(HEAD)?.strip_suffix(TAIL)?.split_once(HASH)
}

/// The digest of the text that a translation depends on. Figures that a measurement writes between markers
/// are left out: translations refer to them.
fn digest(text: &str) -> String {
    let mut measured = false;
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let is_marker = line.starts_with("<!-- ");
        measured &= !(is_marker && line.ends_with(": end -->"));
        if !measured {
            kept.push_str(line);
            kept.push('\n');
        }
        measured |= is_marker && line.contains(": begin (");
    }
    let mut digest = sha256(kept.as_bytes());
    digest.truncate(DIGITS);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> File {
        File { path: "docs/zh-CN/a.md".into(), text: text.into() }
    }

    fn message(translation: &str, source: Option<&str>) -> Option<String> {
        judged(&page(translation), source.map(page).as_ref()).map(|violation| violation.message)
    }

    #[test]
    fn translations_are_told_by_where_they_are() {
        for file in ["README.zh-CN.md", "docs/zh-CN/a.md", "docs/pt-BR/a.md"] {
            assert!(is_translation(Path::new(file)), "{file}");
        }
        for file in ["README.md", "docs/gateway-api.md", "docs/overload/a.md", "docs/life-of-a-request.md"] {
            assert!(!is_translation(Path::new(file)), "{file}");
        }
    }

    #[test]
    fn a_translation_holds_until_its_source_changes() {
        let translation = format!("<!-- translates docs/a.md, sha256 {} -->\n# 甲\n", digest("# A\n"));
        assert_eq!(message(&translation, Some("# A\n")), None);
        assert_eq!(message(&translation, Some("# A\r\n")), None, "a checkout may end lines otherwise");
        let told = message(&translation, Some("# B\n")).expect("it is old");
        assert!(told.starts_with("is older than docs/a.md"), "{told}");
        let head = format!("<!-- translates docs/a.md, sha256 {} -->", digest("# B\n"));
        assert!(told.contains(&head), "{told}");
        assert_eq!(
            message(&format!("{head}\n# 乙\n"), Some("# B\n")),
            None,
            "what it says to write is right"
        );
    }

    #[test]
    fn a_translation_names_a_page_that_is_there() {
        assert!(message("# 甲\n", None).expect("it names none").starts_with("opens without"));
        let told = message("<!-- translates docs/a.md, sha256 0 -->\n", None).expect("there is none");
        assert_eq!(told, "translates docs/a.md, which is not there");
    }

    #[test]
    fn figures_between_markers_do_not_make_a_translation_old() {
        let with = |before: &str, figures: &str, after: &str| {
            digest(&format!(
                "{before}\n<!-- case a: begin (written by x) -->\n{figures}\n<!-- case a: end -->\n{after}\n"
            ))
        };
        assert_eq!(with("before", "1", "after"), with("before", "2\n3", "after"));
        assert_ne!(with("before", "1", "after"), with("before", "1", "later"));
        assert_ne!(with("before", "1", "after"), with("earlier", "1", "after"));
    }
}

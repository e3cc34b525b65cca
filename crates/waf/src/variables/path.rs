//! The paths of `XPath` that rules use: `/a/b`, `//a`, `*`, `@name`, `text()`.
//!
//! Namespaces do not count: a name is compared without its prefix, so that rules see rather more than less.
//! Never in here: predicates, functions, other axes.

/// Steps of one path.
const STEPS_MAX: usize = 32;

/// A path to elements, attributes or texts of an XML body.
#[derive(Debug)]
pub(crate) struct Path(Vec<Step>);

#[derive(Debug)]
struct Step {
    /// True for `//`: any number of elements may stand before it.
    skips: bool,
    /// `name`, `@name`, or `text()`; without a name for `*` and `@*`.
    mark: Mark,
    name: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Element,
    Attribute,
    Text,
}

impl Path {
    /// Reads a path; `None` if it is none of these.
    pub(crate) fn parse(text: &str) -> Option<Path> {
        let mut steps = Vec::new();
        let mut rest = text;
        while let Some(after) = rest.strip_prefix('/') {
            let (skips, after) = after.strip_prefix('/').map_or((false, after), |after| (true, after));
            let end = after.find('/').unwrap_or(after.len());
            let (mark, name) = node(&after[..end]);
            let begins = |letter: char| letter.is_alphabetic() || letter == '_';
            let goes_on = |letter: char| begins(letter) || letter.is_numeric() || "-.".contains(letter);
            if name != "*" && !(name.starts_with(begins) && name.chars().all(goes_on)) {
                return None;
            }
            steps.push(Step { skips, mark, name: Some(name).filter(|name| *name != "*").map(Into::into) });
            rest = &after[end..];
        }
        let inner = steps.split_last()?.1;
        let is_valid = rest.is_empty() && inner.iter().all(|step| step.mark == Mark::Element);
        (is_valid && steps.len() <= STEPS_MAX).then_some(Path(steps))
    }

    /// True if the path leads to the node with this place, such as `/s:Envelope/s:Body/a/@id`.
    pub(crate) fn leads_to(&self, place: &str) -> bool {
        // True where the steps so far can end, by the number of parts of the place.
        let parts: Vec<&str> = place.split('/').skip(1).collect();
        let mut reached = vec![false; parts.len() + 1];
        reached[0] = true;
        for step in &self.0 {
            let mut next = vec![false; parts.len() + 1];
            let mut can_begin = false;
            for (at, part) in parts.iter().enumerate() {
                can_begin = reached[at] || (can_begin && step.skips);
                next[at + 1] = can_begin && step.fits(part);
            }
            reached = next;
        }
        reached[parts.len()]
    }
}

impl Step {
    fn fits(&self, part: &str) -> bool {
        let (mark, name) = node(part);
        mark == self.mark && self.name.as_deref().is_none_or(|own| own == name)
    }
}

/// The kind of a node, and its name without its prefix.
fn node(text: &str) -> (Mark, &str) {
    if text == "text()" {
        return (Mark::Text, "*");
    }
    let (mark, name) = text.strip_prefix('@').map_or((Mark::Element, text), |name| (Mark::Attribute, name));
    (mark, name.split_once(':').map_or(name, |(_, local)| local))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_nodes_as_in_xpath() {
        let cases: [(&str, &str, bool); 15] = [
            ("/a/b", "/a/b", true),
            ("/a/b", "/a/b/c", false),
            ("/a/b", "/x/a/b", false),
            ("//b", "/a/b", true),
            ("//b", "/b", true),
            ("//a//c", "/a/b/c", true),
            ("//a//c", "/b/c", false),
            ("/*/*/a", "/s:Envelope/s:Body/a", true),
            ("/s:Envelope/s:Body", "/e:Envelope/e:Body", true),
            ("//b/@k", "/a/b/@k", true),
            ("//b/@*", "/a/b/@x:k", true),
            ("//b/*", "/a/b/@k", false),
            ("//a/text()", "/a/text()", true),
            ("//a/text()", "/a", false),
            ("//text()", "/a/b/text()", true),
        ];
        for (path, place, expected) in cases {
            assert_eq!(Path::parse(path).expect(path).leads_to(place), expected, "{path} {place}");
        }
        for path in
            ["", "a", "/", "//", "/a[1]", "//a/..", "/@a/b", "/a/text()/b", "/count(a)", "/a|/b", "/a/"]
        {
            assert!(Path::parse(path).is_none(), "{path}");
        }
        assert!(Path::parse(&"/a".repeat(33)).is_none());
    }
}

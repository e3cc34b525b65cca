//! Another path for the endpoint (Gateway API: `URLRewrite`). The `Host` for the endpoint is set by
//! `outbound`.

use model::PathChange;
use wire::path::{escape, escape_if, of_target, query_of_target};

use crate::route::filters::{Decision, RequestView, Rewritten};

pub(super) fn apply(rewrite: &model::UrlRewrite, request: &RequestView<'_>) -> Decision {
    let target = rewrite.path.as_ref().map(|change| changed_target(change, request.path, request.target));
    Decision::Rewrite(Rewritten { captures: None, target })
}

/// The target with another path. The change is made to the normalised path, by which the route was found,
/// and the result is escaped again where the client's path was.
pub(crate) fn changed_target(change: &PathChange, path: &[u8], target: &[u8]) -> Vec<u8> {
    let changed = change.apply(path);
    let mut out = Vec::with_capacity(changed.len() + target.len());
    if memchr::memchr(b'%', of_target(target)).is_some() {
        escape(&changed, &mut out);
    } else {
        escape_if(&changed, |byte| byte.is_ascii() && !byte.is_ascii_graphic(), &mut out);
    }
    if let Some(query) = query_of_target(target) {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(from: &str, to: &str, path: &str, target: &str) -> String {
        let change = PathChange::Prefix { from: from.to_owned(), to: to.to_owned() };
        String::from_utf8(changed_target(&change, path.as_bytes(), target.as_bytes())).unwrap()
    }

    #[test]
    fn the_query_stays_and_what_was_escaped_is() {
        assert_eq!(
            target("/prefix/one", "/one", "/prefix/one/two", "/prefix/one/two?a=b/c&d"),
            "/one/two?a=b/c&d"
        );
        assert_eq!(target("/a", "/", "/a", "/a?"), "/?");
        assert_eq!(target("/a", "/b", "/a/x y?", "/a/x%20y%3F?q"), "/b/x%20y%3F?q");
        assert_eq!(target("/a", "/b", "/a/{x}", "//a/./{x}"), "/b/{x}");
        let whole = PathChange::Full("/one".to_owned());
        assert_eq!(changed_target(&whole, b"/a/b", b"/a/b?c"), b"/one?c");
    }
}

//! Replaces the request's path (ingress-nginx: `rewrite-target`), as nginx's `rewrite PATTERN TARGET break`
//! does.

use model::template::{Part, Template, Variable};
use model::{Captures, Rewrite, TooManySteps};
use observe::Reason;
use wire::path::{climbs, escape, escape_if, escape_unprintable, of_target, query_of_target};

use super::printable;
use crate::limits::REWRITE_BYTES_MAX;
use crate::request::reply::Answer;
use crate::route::filters::{Decision, RequestView, Rewritten};

pub(super) fn apply(rewrite: &Rewrite, request: &RequestView<'_>) -> Decision {
    let captures = match rewrite.pattern.captures(request.path, request.steps) {
        Ok(Some(captures)) => captures,
        Ok(None) => return Decision::Continue,
        Err(TooManySteps) => return Decision::Refuse(Reason::ExpressionSteps),
    };
    // nginx escapes the result if the path had escapes, and passes other characters on as they came.
    let has_escapes = memchr::memchr(b'%', of_target(request.target)).is_some();
    if rewrite.redirects {
        return match location(rewrite, request, &captures, has_escapes) {
            Ok(location) => Decision::Answer(Answer::redirect(302, location)),
            Err(TooLong) => Decision::Refuse(Reason::TextTooLong),
        };
    }
    let mut path = Vec::with_capacity(request.path.len() + 16);
    path.push(b'/');
    let add = |found: &[u8], path: &mut Vec<u8>| path.extend_from_slice(found);
    if substitute(&rewrite.target, request, &captures, add, &mut path).is_err() {
        return Decision::Refuse(Reason::TextTooLong);
    }
    if path.get(1) == Some(&b'/') {
        path.remove(0);
    }
    // A client's values, such as headers, have not been normalised: `..` in them could leave the path.
    if has_values(&rewrite.target) && climbs(&path) {
        return Decision::Refuse(Reason::BadTarget);
    }
    let mut target = Vec::with_capacity(request.target.len() + 16);
    if has_escapes {
        escape(&path, &mut target);
    } else {
        escape_if(&path, |byte| byte.is_ascii() && !byte.is_ascii_graphic(), &mut target);
    }
    add_query(&mut target, request.current);
    Decision::Rewrite(Rewritten { captures: Some(captures), target: Some(target) })
}

/// The `Location` of a redirect: captures are escaped, so that the client requests the same path.
fn location(
    rewrite: &Rewrite,
    request: &RequestView<'_>,
    captures: &Captures,
    has_escapes: bool,
) -> Result<String, TooLong> {
    let is_escaped = |byte: u8| !byte.is_ascii_graphic() || (has_escapes && b"\"#%".contains(&byte));
    let mut url = Vec::new();
    substitute(&rewrite.target, request, captures, |found, url| escape_if(found, is_escaped, url), &mut url)?;
    add_query(&mut url, request.current);
    Ok(printable(&url))
}

/// The result is longer than [`REWRITE_BYTES_MAX`].
struct TooLong;

/// Appends a template's text. `add` appends a capture.
fn substitute(
    template: &Template,
    request: &RequestView<'_>,
    captures: &Captures,
    add: impl Fn(&[u8], &mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Result<(), TooLong> {
    for part in template.parts() {
        if out.len() > REWRITE_BYTES_MAX {
            return Err(TooLong);
        }
        match part {
            Part::Text(text) => out.extend_from_slice(text.as_bytes()),
            Part::Variable(Variable::Capture(group)) => {
                add(captures.get(*group).map_or(b"", |range| &request.path[range]), out);
            }
            Part::Variable(other) => {
                escape_unprintable(&(request.expand)(&Template::from(other.clone())), out);
            }
        }
    }
    if out.len() > REWRITE_BYTES_MAX { Err(TooLong) } else { Ok(()) }
}

/// Whether the template has variables that are no part of the path.
fn has_values(template: &Template) -> bool {
    template.variables().any(|variable| !matches!(variable, Variable::Capture(_)))
}

fn add_query(target: &mut Vec<u8>, asked: &[u8]) {
    if let Some(query) = query_of_target(asked).filter(|query| !query.is_empty()) {
        target.push(b'?');
        target.extend_from_slice(query);
    }
}

#[cfg(test)]
mod tests {
    use model::{Expression, RequestFilter};

    use super::super::outcome;
    use super::*;
    use crate::request::forwarded::Forwarded;
    use crate::route::filters::FilterResult;

    fn filter(pattern: &str, target: &str) -> RequestFilter {
        let pattern = Expression::anywhere(pattern).unwrap();
        let redirects = target.starts_with("http");
        let target = Template::parse(target).unwrap();
        RequestFilter::Rewrite(Box::new(Rewrite { pattern, target, redirects }))
    }

    /// The target for the endpoint; none for the client's own.
    fn rewritten(pattern: &str, target: &str, asked: &str) -> Option<String> {
        let (result, rewritten) = outcome(&filter(pattern, target), asked, &Forwarded::sample());
        assert_eq!(result, FilterResult::Continue);
        rewritten
    }

    #[test]
    fn a_target_that_becomes_too_long_is_refused() {
        let long = format!("/{}", "a".repeat(1000));
        for target in ["/$1".repeat(200), format!("https://b.test/{}", "$1".repeat(200))] {
            let (result, _) = outcome(&filter("/(.*)", &target), &long, &Forwarded::sample());
            assert_eq!(result, FilterResult::Refuse(Reason::TextTooLong));
        }
    }

    #[test]
    fn groups_and_the_query_stay() {
        let to = |asked| rewritten("/api(/|$)(.*)", "/$2", asked).unwrap();
        assert_eq!(to("/api/v1/x?a=1&b"), "/v1/x?a=1&b");
        assert_eq!(to("/API"), "/");
        assert_eq!(to("/api/?"), "/");
        assert_eq!(rewritten("/a/", "/b", "/x/a/y").as_deref(), Some("/b"), "anywhere, and all of it");
        assert_eq!(rewritten("/a/", "/b", "/a"), None);
        assert_eq!(
            rewritten("/a(x)?(.*)", "/b$1$9$2", "/ac").as_deref(),
            Some("/bc"),
            "groups without a match"
        );
    }

    #[test]
    fn the_normalised_path_is_taken_and_escaped_again() {
        let to = |asked| rewritten("/a/(.*)", "/$1", asked).unwrap();
        assert_eq!(to("/a/b%20c%2Fd//e/./f/../%25"), "/b%20c/d/e/%25");
        assert_eq!(to("/a/%7Bx%7D%3F%22"), "/%7Bx%7D%3F%22");
        assert_eq!(to("/a/{x}"), "/{x}", "as nginx passes on what came unescaped");
        assert_eq!(to("/a/%0dX:y"), "/%0DX:y");
        assert_eq!(to("/a/b%0aX:y"), "/b", "a dot takes no line feed");
    }

    #[test]
    fn a_path_begins_with_a_slash() {
        assert_eq!(rewritten("/a/(.*)", "$1", "/a/b").as_deref(), Some("/b"));
        assert_eq!(rewritten("/a/(.*)", "$1", "/a/http://b/").as_deref(), Some("/http:/b/"));
        assert_eq!(rewritten("/a(.*)", "$1", "/a").as_deref(), Some("/"));
    }

    #[test]
    fn an_absolute_target_is_a_redirect() {
        let (result, rewritten) =
            outcome(&filter("/a/(.*)", "https://b.test/$1"), "/a/x%20y%0D&z?q=1", &Forwarded::sample());
        let FilterResult::Answer(answer) = result else { panic!("{result:?}") };
        assert_eq!((answer.status, rewritten), (302, None));
        assert_eq!(answer.field("Location"), Some("https://b.test/x%20y%0D&z?q=1"));
    }

    #[test]
    fn values_of_a_request_are_put_in() {
        let to = |asked| rewritten("/a", "/$host", asked).unwrap();
        assert_eq!(to("/a"), "/Some(Host)");
    }
}

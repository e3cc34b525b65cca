//! Redirects requests for `/` to the application's path (ingress-nginx: `app-root`).

use model::template::Template;

use super::printable;
use crate::request::reply::{Answer, Scope};
use crate::route::filters::{FilterResult, RequestView};

/// nginx has `return 302 $scheme://$http_host<path>`: the host is the client's, with its port.
pub(super) fn apply(path: &Template, request: &RequestView<'_>) -> FilterResult {
    if request.path != b"/" {
        return FilterResult::Continue;
    }
    let (scheme, host) = (printable(request.forwarded.own_scheme), printable(request.host));
    let path = path.as_text().map_or_else(|| printable(&(request.expand)(path)), str::to_owned);
    FilterResult::Answer(Answer::redirect(302, format!("{scheme}://{host}{path}")).of(Scope::Host))
}

#[cfg(test)]
mod tests {
    use model::RequestFilter;

    use super::super::outcome;
    use super::*;
    use crate::request::forwarded::Forwarded;

    #[test]
    fn only_the_root_is_redirected() {
        let located = |target| {
            let filter = RequestFilter::AppRoot(Template::parse("/app").unwrap());
            match outcome(&filter, target, &Forwarded::sample()).0 {
                FilterResult::Answer(answer) => {
                    Some((answer.status, answer.field("Location").unwrap().to_owned()))
                }
                _ => None,
            }
        };
        let expected = Some((302, "http://web.test.com:8080/app".to_owned()));
        assert_eq!(located("/"), expected);
        assert_eq!(located("//?a=b"), expected, "the normalised path counts, and the query goes");
        assert_eq!(located("/a"), None);
    }
}

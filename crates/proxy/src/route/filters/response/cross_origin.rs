//! CORS headers, and answers to preflights, as the Gateway API has it (`HTTPCORSFilter`, GEP-1767).

use model::{Allowed, CrossOrigin};

use super::Asking;
use crate::request::head::HeadEdits;
use crate::request::reply::Answer;

/// The answer to a preflight, whatever its origin: the headers beside it say which origins are allowed. None
/// for other requests (Fetch standard, "CORS-preflight request").
pub(crate) fn preflight(asking: &Asking<'_>) -> Option<Answer> {
    let is_preflight = asking.is_preflight();
    is_preflight.then(Answer::preflight)
}

/// Sets the headers, in place of those that the endpoint has sent. None are set for an origin that is not
/// allowed.
pub(crate) fn apply<'a>(cors: &'a CrossOrigin, asking: &Asking<'a>, edits: &mut HeadEdits<'a>) {
    let Some(origin) = asking.origin.filter(|origin| cors.allows(origin)) else {
        for name in ALL {
            edits.remove(name);
        }
        return;
    };
    edits.set(ALLOW_ORIGIN, origin);
    edits.add("Vary", &b"Origin"[..]);
    if cors.credentials {
        edits.set(ALLOW_CREDENTIALS, &b"true"[..]);
    } else {
        edits.remove(ALLOW_CREDENTIALS);
    }
    set(EXPOSE_HEADERS, &cors.expose, cors.credentials, None, edits);
    if !asking.is_preflight() {
        return;
    }
    set(ALLOW_METHODS, &cors.methods, cors.credentials, asking.requested_method, edits);
    set(ALLOW_HEADERS, &cors.headers, cors.credentials, asking.requested_headers, edits);
    edits.set(MAX_AGE, cors.max_age.to_string().into_bytes());
}

/// With a client's credentials `*` is no wildcard: the requested values replace it.
fn set<'a>(
    name: &'static str,
    allowed: &'a Allowed,
    credentials: bool,
    requested: Option<&'a [u8]>,
    edits: &mut HeadEdits<'a>,
) {
    match (allowed, requested) {
        (Allowed::Listed(names), _) => edits.set(name, names.as_bytes()),
        (Allowed::Any, _) if !credentials => edits.set(name, &b"*"[..]),
        (Allowed::Any, Some(requested)) => edits.set(name, requested),
        (Allowed::Any | Allowed::Unsaid, _) => edits.remove(name),
    }
}

const ALLOW_ORIGIN: &str = "Access-Control-Allow-Origin";
const ALLOW_CREDENTIALS: &str = "Access-Control-Allow-Credentials";
const ALLOW_METHODS: &str = "Access-Control-Allow-Methods";
const ALLOW_HEADERS: &str = "Access-Control-Allow-Headers";
const EXPOSE_HEADERS: &str = "Access-Control-Expose-Headers";
const MAX_AGE: &str = "Access-Control-Max-Age";

/// Headers of endpoints that are replaced by ours.
const ALL: [&str; 6] =
    [ALLOW_ORIGIN, ALLOW_CREDENTIALS, ALLOW_METHODS, ALLOW_HEADERS, EXPOSE_HEADERS, MAX_AGE];

#[cfg(test)]
mod tests {
    use model::OriginPattern;

    use super::*;

    fn cors(credentials: bool, origin: &str, all: &[&str]) -> CrossOrigin {
        CrossOrigin {
            origins: vec![OriginPattern::parse(origin).unwrap()],
            credentials,
            methods: Allowed::of(all).unwrap(),
            headers: Allowed::of(all).unwrap(),
            expose: Allowed::of(all).unwrap(),
            max_age: 5,
        }
    }

    fn preflight_of(origin: &[u8]) -> Asking<'_> {
        Asking {
            origin: Some(origin),
            method: b"OPTIONS",
            requested_method: Some(b"PUT"),
            requested_headers: Some(b"x-a, x-b"),
        }
    }

    fn told(cors: &CrossOrigin, asking: &Asking<'_>) -> Vec<String> {
        let mut edits = HeadEdits::default();
        apply(cors, asking, &mut edits);
        // A name alone stands for fields that are removed.
        edits.lines().into_iter().filter(|line| line.contains(':')).collect()
    }

    #[test]
    fn a_preflight_is_told_what_is_allowed() {
        let asking = preflight_of(b"https://a.test");
        assert!(preflight(&asking).is_some());
        let listed = cors(true, "https://a.test", &["GET", "PUT"]);
        let expected = [
            "Access-Control-Allow-Origin: https://a.test",
            "Vary: Origin",
            "Access-Control-Allow-Credentials: true",
            "Access-Control-Expose-Headers: GET, PUT",
            "Access-Control-Allow-Methods: GET, PUT",
            "Access-Control-Allow-Headers: GET, PUT",
            "Access-Control-Max-Age: 5",
        ];
        assert_eq!(told(&listed, &asking), expected);
        let any = told(&cors(false, "*", &["*"]), &asking);
        assert!(any.contains(&"Access-Control-Allow-Methods: *".to_owned()), "{any:?}");
        assert!(!any.iter().any(|line| line.contains("Credentials")), "{any:?}");
        let with_credentials = told(&cors(true, "*", &["*"]), &asking);
        for line in ["Allow-Origin: https://a.test", "Allow-Methods: PUT", "Allow-Headers: x-a, x-b"] {
            assert!(with_credentials.contains(&format!("Access-Control-{line}")), "{with_credentials:?}");
        }
        assert!(!with_credentials.iter().any(|line| line.contains("Expose")), "{with_credentials:?}");
    }

    #[test]
    fn who_may_not_is_told_nothing() {
        let asking = preflight_of(b"https://b.test");
        assert!(preflight(&asking).is_some());
        assert!(told(&cors(true, "https://a.test", &["*"]), &asking).is_empty());
    }

    #[test]
    fn other_requests_are_told_who_may_read_the_response() {
        let asking = Asking { method: b"GET", ..preflight_of(b"https://a.test") };
        assert!(preflight(&asking).is_none());
        let lines = told(&cors(true, "*", &["GET"]), &asking);
        assert_eq!(lines.len(), 4, "{lines:?}");
        let plain = Asking { origin: None, ..preflight_of(b"") };
        assert!(preflight(&plain).is_none() && told(&cors(false, "*", &["*"]), &plain).is_empty());
        let unasked = Asking { requested_method: None, ..preflight_of(b"https://a.test") };
        assert!(preflight(&unasked).is_none(), "an OPTIONS of the application's own");
    }
}

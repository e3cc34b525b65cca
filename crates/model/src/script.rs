//! The programs that nginx's configuration in snippets is translated to: steps for each request, and changes
//! to heads.
//!
//! Steps run in their order before the request is forwarded (nginx's rewrite phase). Directives about headers
//! apply to the response, or to the request to the endpoint, whatever follows them in the text. Must not be
//! in here: how a program is run.

use std::sync::Arc;

use serde::Serialize;

use crate::template::Template;
use crate::{Expression, Networks, Route, StepBudget, TooManySteps};

/// The program for the requests of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Script {
    /// The program of the whole host, which runs before a route is looked up.
    pub host: Option<Arc<HostScript>>,
    /// The program of the route.
    pub route: Option<Arc<Block>>,
    /// Whether the route adds response headers itself, which disables those inherited from the host (nginx's
    /// `add_header`).
    pub adds_headers: bool,
    /// The routes of requests that a [`Pass`] sends elsewhere.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub passes: Box<[PassRoute]>,
}

/// The route of requests that a [`Pass`] sends to another cluster than that of their own route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PassRoute {
    /// The [`Pass::to`] of these requests.
    pub to: Arc<str>,
    /// It is for requests of a [`ScriptPlace`], which have nothing of a route's own settings; otherwise for
    /// those of the route itself.
    pub is_of_place: bool,
    /// The route that serves them.
    pub route: Arc<Route>,
}

/// The program of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostScript {
    /// Steps for every request of the host, and headers of its responses.
    pub block: Block,
    /// How many of its steps are done before the redirect of `/` to the root of an application
    /// ([`AppRoot`](crate::RequestFilter)).
    pub steps_before_app_root: usize,
    /// Paths that the host answers itself, before its routes.
    pub places: Vec<ScriptPlace>,
}

/// A path that a host answers itself (nginx's `location` in a server).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScriptPlace {
    /// The paths of this location.
    pub path: ScriptPath,
    /// Steps for the requests. A request that they do not answer is one for a file, of which there are none.
    pub block: Block,
    /// The clients that are admitted.
    pub networks: Option<Networks>,
    /// Where the requests go that no step has answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<Pass>,
}

/// Paths in nginx's forms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ScriptPath {
    /// `= /a`: this path alone.
    Exact(String),
    /// `/a`: paths that begin with this text, unless a regular expression matches.
    Prefix(String),
    /// `^~ /a`: paths that begin with this text.
    FirmPrefix(String),
    /// `~ a` and `~* a`: paths that match, in the order of the text.
    Matching(Expression),
}

/// The directives of one pair of braces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Block {
    /// Steps that a request runs through.
    pub steps: Vec<Step>,
    /// Changes to the heads of request and response.
    pub headers: Headers,
}

/// One thing to do with a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Step {
    /// Give a variable a value.
    Set(Arc<str>, Template),
    /// Do something more, if that holds. Of all blocks that are entered, the headers of the last one hold.
    If(Test, Block),
    /// Answers the request.
    Return(Return),
    /// Go on with another path, or send the client there.
    Rewrite(ScriptRewrite),
    /// Do no other step of this level.
    Break,
    /// Send the request to another cluster, unless a later condition holds.
    Pass(Pass),
}

/// Sends a request to another cluster than that of its route (nginx's `proxy_pass`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Pass {
    /// Scheme, host and port of the cluster: `http://web.shop.svc:80`.
    pub to: Arc<str>,
    /// The path and query that the endpoint is asked for.
    pub target: PassTarget,
}

/// The path and query that an endpoint is asked for after a [`Pass`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum PassTarget {
    /// Path and query as they are.
    Same,
    /// The path with another beginning.
    Beginning {
        /// Bytes of the path that are replaced.
        len: usize,
        /// The text that replaces them.
        with: String,
    },
    /// This path and query.
    Whole(Template),
}

/// A condition of an `if`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Test {
    /// The text that is tested.
    pub subject: Template,
    /// The comparison for it.
    pub check: Check,
    /// It must not be that.
    pub is_negated: bool,
}

/// A comparison of an `if`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Check {
    /// The text is neither empty nor `0`.
    IsTrue,
    /// The text equals this one.
    Equals(Template),
    /// The expression is found in it. Its groups are `$1` and so on from then on.
    Matches(Expression),
}

/// An answer of the program itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Return {
    /// HTTP status; 444 for none at all: the connection is closed.
    pub status: u16,
    /// Content of the answer.
    pub content: ReturnContent,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum ReturnContent {
    /// The standard content for the status.
    Nothing,
    /// This text, of the media type of its block.
    Text(Template),
    /// Where the client is to go.
    Location(Template),
}

/// Another path (nginx's `rewrite`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ScriptRewrite {
    /// Expression for the normalised path. A path that does not match stays unchanged.
    pub pattern: Expression,
    /// The new path, or an absolute URL.
    pub target: Template,
    /// A query of its own.
    pub query: Option<Template>,
    /// Appends the request's query to that of the target.
    pub keeps_query: bool,
    /// The continuation after the rewrite.
    pub next: AfterRewrite,
}

/// The continuation after a path was rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum AfterRewrite {
    /// The next step; the host's route for the path takes the request in the end.
    GoOn,
    /// No other step of this level; the host's route for the path takes the request (nginx: `last`).
    FindRoute,
    /// No other step of this level; the request stays with its route (nginx: `break`).
    Stay,
    /// The client is sent there with this status.
    Redirect(u16),
}

/// Changes to heads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Headers {
    /// Changes to responses, in their order.
    pub response: Vec<ResponseEdit>,
    /// Headers that are added to those of responses. Those of an inner block replace those of outer ones.
    pub added: Vec<AddedHeader>,
    /// Headers of endpoints that clients do not get.
    pub hidden: Vec<String>,
    /// Headers of the request to the endpoint that replace the client's.
    pub request: Vec<RequestEdit>,
    /// Media type of texts that are answered with; none for the one outside.
    pub media_type: Option<String>,
    /// Values of `Expires` and `Cache-Control`; none leaves the values of the enclosing block.
    pub expires: Option<Expires>,
}

/// The header fields that a change applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub enum Reach {
    /// Replaces the fields of the name by its value.
    #[default]
    Name,
    /// No field: the value is added beside those of the name.
    Beside,
    /// Replaces the fields of the name, if there are any; otherwise does nothing.
    Present,
    /// Removes the fields whose names begin with the given name, which ends in `*`. Needs no value.
    Beginning,
}

/// How long a response may be cached (nginx's `expires`). It applies to the statuses of an [`AddedHeader`]
/// without `always`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Expires {
    /// Sends neither header, whatever an outer block says.
    Off,
    /// The response has expired already.
    Epoch,
    /// Ten years, nginx's `max`.
    Max,
    /// Expires after so many seconds; a negative number means that it has expired already.
    In(i64),
    /// Expires so many seconds after the response was last modified, if it has such a date; otherwise as
    /// [`In`](Self::In).
    SinceModified(i64),
    /// Until the next time that the day has so many seconds (UTC).
    Daily(u32),
}

/// A change to a response, be it an endpoint's or the proxy's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ResponseEdit {
    /// Name of the header.
    pub name: String,
    /// Value of the header, which is not sent if the value is empty.
    pub value: Option<Template>,
    /// The statuses that the header is for; empty for all.
    pub statuses: Vec<u16>,
    /// The fields that the change applies to.
    pub reach: Reach,
}

/// A header that is added to responses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct AddedHeader {
    /// Name of the parameter.
    pub name: String,
    /// Value of the parameter, which is omitted if the value is empty.
    pub value: Template,
    /// Whatever the status; otherwise only with 200, 201, 204, 206, 301 to 304, 307 and 308.
    pub always: bool,
}

/// A header of the request to the endpoint that replaces the client's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct RequestEdit {
    /// Name of the header.
    pub name: String,
    /// Value of the header, which is not sent if the value is empty.
    pub value: Option<Template>,
    /// Treats the header as one that the client sent: headers of the proxy replace it, and auth services get
    /// it too.
    pub is_input: bool,
    /// The fields that the change applies to.
    pub reach: Reach,
}

impl Script {
    /// Whether the block does nothing.
    pub fn is_empty(&self) -> bool {
        self.host.is_none() && self.route.is_none()
    }
}

impl Headers {
    /// Appends the steps and headers of another block.
    pub fn extend(&mut self, others: &Self) {
        self.response.extend_from_slice(&others.response);
        self.added.extend_from_slice(&others.added);
        self.hidden.extend_from_slice(&others.hidden);
        self.request.extend_from_slice(&others.request);
        self.media_type = others.media_type.clone().or(self.media_type.take());
        self.expires = others.expires.or(self.expires);
    }
}

impl AddedHeader {
    /// Whether responses with this status get it.
    pub fn is_for(&self, status: u16) -> bool {
        self.always || is_usual(status)
    }
}

/// The statuses to which nginx adds headers without `always`.
fn is_usual(status: u16) -> bool {
    matches!(status, 200 | 201 | 204 | 206 | 301..=304 | 307 | 308)
}

impl Expires {
    /// The value of `Expires` as a time and that of `Cache-Control`, for a response with this status that was
    /// last `modified` then; none if neither is sent. Times are in seconds since 1970.
    pub fn said(self, status: u16, now: i64, modified: Option<i64>) -> Option<(i64, String)> {
        let old = |time: i64| (time, "no-cache".to_owned());
        let until =
            |time: i64| if time < now { old(time.max(0)) } else { (time, format!("max-age={}", time - now)) };
        let said = match self {
            Self::Off => return None,
            Self::Epoch => old(1),
            Self::Max => (MAX_EXPIRES, "max-age=315360000".to_owned()),
            Self::SinceModified(seconds) if seconds != 0 => {
                let time = modified.unwrap_or(now).saturating_add(seconds);
                if seconds < 0 { old(time.max(0)) } else { until(time) }
            }
            Self::In(seconds) | Self::SinceModified(seconds) => until(now.saturating_add(seconds)),
            Self::Daily(second) => {
                let today = now - now.rem_euclid(DAY_SECONDS) + i64::from(second);
                until(if today > now { today } else { today + DAY_SECONDS })
            }
        };
        is_usual(status).then_some(said)
    }
}

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// nginx: "the value `Thu, 31 Dec 2037 23:55:55 GMT`".
const MAX_EXPIRES: i64 = 2_145_916_555;

impl HostScript {
    /// The location that takes a path in place of the host's routes. nginx: an equal path comes first, then
    /// `^~` where it is the longest prefix, then expressions in their order, then the longest prefix.
    ///
    /// # Errors
    ///
    /// The expression of a location exceeds its budget of steps.
    pub fn place(
        &self,
        path: &[u8],
        route: RoutePath<'_>,
        budget: &StepBudget,
    ) -> Result<Option<&ScriptPlace>, TooManySteps> {
        let exact = self
            .places
            .iter()
            .find(|place| matches!(&place.path, ScriptPath::Exact(text) if text.as_bytes() == path));
        if exact.is_some() || route == RoutePath::Exact {
            return Ok(exact);
        }
        let of_route = match route {
            RoutePath::Prefix(text) => text.len(),
            RoutePath::Exact | RoutePath::Expression => 0,
        };
        let beginning = |place: &&ScriptPlace| match &place.path {
            ScriptPath::Prefix(text) | ScriptPath::FirmPrefix(text) if path.starts_with(text.as_bytes()) => {
                text.len()
            }
            _ => 0,
        };
        let longest = self.places.iter().max_by_key(beginning).filter(|place| beginning(place) > of_route);
        if let Some(place) = longest.filter(|place| matches!(place.path, ScriptPath::FirmPrefix(_))) {
            return Ok(Some(place));
        }
        for place in &self.places {
            if let ScriptPath::Matching(pattern) = &place.path
                && pattern.try_match(path, budget)?
            {
                return Ok(Some(place));
            }
        }
        Ok(longest.filter(|_| route != RoutePath::Expression))
    }
}

/// How the route that would take a request compares paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutePath<'p> {
    /// It takes this one path.
    Exact,
    /// Paths that begin with this one.
    Prefix(&'p str),
    /// It has a regular expression.
    Expression,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(paths: Vec<ScriptPath>) -> HostScript {
        let place = |path| ScriptPlace { path, block: Block::default(), networks: None, pass: None };
        HostScript { places: paths.into_iter().map(place).collect(), ..HostScript::default() }
    }

    #[test]
    fn the_place_is_the_one_that_nginx_would_take() {
        let text = |text: &str| text.to_owned();
        let php = ScriptPath::Matching(Expression::anywhere(r"\.php$").unwrap());
        let host = places(vec![
            php.clone(),
            ScriptPath::Prefix(text("/static/")),
            ScriptPath::FirmPrefix(text("/firm/")),
            ScriptPath::Exact(text("/robots.txt")),
        ]);
        let at = |path: &str, route| {
            let found = host.place(path.as_bytes(), route, &StepBudget::default()).unwrap()?;
            host.places.iter().position(|place| place == found)
        };
        let root = RoutePath::Prefix("/");
        assert_eq!(at("/a.php", root), Some(0));
        assert_eq!(at("/static/a", root), Some(1));
        assert_eq!(at("/static/a.php", root), Some(0), "expressions come before beginnings");
        assert_eq!(at("/firm/a.php", root), Some(2), "but for those that are firm");
        assert_eq!(at("/robots.txt", RoutePath::Expression), Some(3));
        assert_eq!(at("/robots.txt/", root), None);
        assert_eq!(at("/static/deep/a", RoutePath::Prefix("/static/deep")), None, "the route's is longer");
        assert_eq!(at("/static/a", RoutePath::Expression), None, "the route's expression comes before");
        assert_eq!(at("/firm/a", RoutePath::Expression), Some(2));
        assert_eq!(at("/a.php", RoutePath::Exact), None);
    }

    #[test]
    fn what_nginx_says_of_expiry() {
        const NOON: i64 = 20_000 * DAY_SECONDS + 12 * 60 * 60;
        let said = |expires: Expires| expires.said(200, NOON, Some(NOON - 600));
        assert_eq!(said(Expires::Off), None);
        assert_eq!(Expires::In(1).said(404, NOON, None), None);
        assert_eq!(said(Expires::Epoch), Some((1, "no-cache".to_owned())));
        assert_eq!(said(Expires::In(-1)), Some((NOON - 1, "no-cache".to_owned())));
        assert_eq!(said(Expires::In(0)), Some((NOON, "max-age=0".to_owned())));
        assert_eq!(said(Expires::In(3600)), Some((NOON + 3600, "max-age=3600".to_owned())));
        assert_eq!(said(Expires::SinceModified(900)), Some((NOON + 300, "max-age=300".to_owned())));
        assert_eq!(said(Expires::SinceModified(60)), Some((NOON - 540, "no-cache".to_owned())));
        assert_eq!(said(Expires::SinceModified(-1)), Some((NOON - 601, "no-cache".to_owned())));
        assert_eq!(said(Expires::SinceModified(0)), said(Expires::In(0)));
        let unknown = Expires::SinceModified(60).said(200, NOON, None);
        assert_eq!(unknown, said(Expires::In(60)), "of a response that does not say when");
        assert_eq!(said(Expires::Daily(46800)), Some((NOON + 3600, "max-age=3600".to_owned())));
        assert_eq!(said(Expires::Daily(43200)), Some((NOON + 86400, "max-age=86400".to_owned())));
    }
}

//! What nginx's configuration in snippets comes to: a small program for each request, made of steps and of changes to heads.
//!
//! Steps run in their order before anything is forwarded (nginx's rewrite phase); what is said of headers holds for the response, or for
//! the request to the endpoint, whatever stands behind it in the text. Must not be in here: how a program is run.

use std::sync::Arc;

use crate::template::Template;
use crate::{Expression, Networks, StepBudget, TooManySteps};

/// What is done with the requests of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// What is done at the whole host, before its routes are looked at.
    pub host: Option<Arc<HostScript>>,
    /// What is done at the route.
    pub route: Option<Arc<Block>>,
    /// The route adds headers to responses itself, so that those are not inherited that the host adds (nginx's `add_header`).
    pub adds_headers: bool,
}

/// What is done at a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostScript {
    /// What is done with every request, and what holds for its responses.
    pub block: Block,
    /// How many of its steps are done before the redirect of `/` to the root of an application ([`AppRoot`](crate::RequestFilter)).
    pub steps_before_app_root: usize,
    /// Paths that the host answers itself, in place of its routes.
    pub places: Vec<ScriptPlace>,
}

/// A path that a host answers itself (nginx's `location` in a server).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptPlace {
    /// Which paths.
    pub path: ScriptPath,
    /// What is done there. A request that this does not answer is one for a file, of which there are none.
    pub block: Block,
    /// Which clients are answered.
    pub networks: Option<Networks>,
}

/// Paths in nginx's forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptPath {
    /// `= /a`: this path alone.
    Exact(String),
    /// `/a`: what begins with this text, unless a regular expression takes it.
    Prefix(String),
    /// `^~ /a`: what begins with this text.
    FirmPrefix(String),
    /// `~ a` and `~* a`: what matches, in the order of the text.
    Matching(Expression),
}

/// The directives of one pair of braces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Block {
    /// What is done with a request.
    pub steps: Vec<Step>,
    /// What holds for its heads.
    pub headers: Headers,
}

/// One thing to do with a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Give a variable a value.
    Set(Arc<str>, Template),
    /// Do something more, if that holds. Of all blocks that are entered, the headers of the last one hold.
    If(Test, Block),
    /// Answer.
    Return(Return),
    /// Go on with another path, or send the client there.
    Rewrite(ScriptRewrite),
    /// Do no other step of this level.
    Break,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Test {
    /// What is looked at.
    pub subject: Template,
    /// What it has to be.
    pub check: Check,
    /// It must not be that.
    pub is_negated: bool,
}

/// What a value is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// It is neither empty nor `0`.
    IsTrue,
    /// It is this text.
    Equals(Template),
    /// The expression is found in it. Its groups are `$1` and so on from then on.
    Matches(Expression),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Return {
    /// HTTP status; 444 for none at all: the connection is closed.
    pub status: u16,
    /// What it says.
    pub content: ReturnContent,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReturnContent {
    /// What answers with the status say.
    Nothing,
    /// This text, of the media type of its block.
    Text(Template),
    /// Where the client is to go.
    Location(Template),
}

/// Another path (nginx's `rewrite`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScriptRewrite {
    /// Is looked for in the normalised path. Where it is not found, nothing happens.
    pub pattern: Expression,
    /// The new path, or an absolute URL.
    pub target: Template,
    /// A query of its own.
    pub query: Option<Template>,
    /// The query that the request has is kept, behind its own.
    pub keeps_query: bool,
    /// What is done then.
    pub next: AfterRewrite,
}

/// What is done once a path was rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Headers {
    /// Changes to responses, in their order.
    pub response: Vec<ResponseEdit>,
    /// Headers beside those that responses have. Those of a block within stand in place of those outside.
    pub added: Vec<AddedHeader>,
    /// Headers of endpoints that clients do not get.
    pub hidden: Vec<String>,
    /// Headers that endpoints get in place of the client's.
    pub request: Vec<RequestEdit>,
    /// Media type of texts that are answered with; none for the one outside.
    pub media_type: Option<String>,
    /// Values of `Expires` and `Cache-Control`; none leaves the values of the enclosing block.
    pub expires: Option<Expires>,
}

/// Which headers a change is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Replaces the fields of the name by its value.
    #[default]
    Name,
    /// None: its value stands beside those of the name.
    Beside,
    /// Replaces the fields of the name, if there are any; otherwise nothing is done.
    Present,
    /// Removes the fields whose names begin with its name, which ends in `*`. It has no value.
    Beginning,
}

/// How long a response may be kept (nginx's `expires`). It is said with the statuses of [`AddedHeader`] that are not `always`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expires {
    /// Nothing is said, whatever is said outside.
    Off,
    /// It is old already.
    Epoch,
    /// Ten years, nginx's `max`.
    Max,
    /// For so many seconds; a negative number says that it is old already.
    In(i64),
    /// For so many seconds since it was last modified, where it says when that was; otherwise as [`In`](Self::In).
    SinceModified(i64),
    /// Until the next time that the day has so many seconds (UTC).
    Daily(u32),
}

/// A change to a response, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResponseEdit {
    /// Name.
    pub name: String,
    /// Value; where it comes to nothing, there is no such header.
    pub value: Option<Template>,
    /// The statuses that it is for; empty for all.
    pub statuses: Vec<u16>,
    /// Which headers it is about.
    pub reach: Reach,
}

/// A header that is added to responses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AddedHeader {
    /// Name.
    pub name: String,
    /// Value; where it comes to nothing, the header is left out.
    pub value: Template,
    /// Whatever the status; otherwise only with 200, 201, 204, 206, 301 to 304, 307 and 308.
    pub always: bool,
}

/// A header that endpoints get in place of the client's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestEdit {
    /// Name.
    pub name: String,
    /// Value; where it comes to nothing, there is no such header.
    pub value: Option<Template>,
    /// It is as if the client had sent it: what the proxy says itself stands in its place, and an auth service is told it too.
    pub is_input: bool,
    /// Which headers it is about.
    pub reach: Reach,
}

impl Script {
    /// Whether it does nothing.
    pub fn is_empty(&self) -> bool {
        self.host.is_none() && self.route.is_none()
    }
}

impl Headers {
    /// Adds what stands behind it.
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

/// The statuses with which nginx adds headers unless it is told otherwise.
fn is_usual(status: u16) -> bool {
    matches!(status, 200 | 201 | 204 | 206 | 301..=304 | 307 | 308)
}

impl Expires {
    /// The time that `Expires` names and the value of `Cache-Control`, for a response with this status that was `modified` then; none if
    /// nothing is said. Times are in seconds since 1970.
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
    /// The place that takes a path which a route of the host would take otherwise. nginx: an equal path comes first, then `^~` where
    /// it is the longest beginning, then expressions in their order, then the longest beginning.
    ///
    /// # Errors
    /// It takes too many steps to find out whether the expression of a place matches.
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
    /// It takes what begins with this one.
    Prefix(&'p str),
    /// It has a regular expression.
    Expression,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(paths: Vec<ScriptPath>) -> HostScript {
        let place = |path| ScriptPlace { path, block: Block::default(), networks: None };
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

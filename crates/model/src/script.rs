//! What nginx's configuration in snippets comes to: a small program for each request, made of steps and of changes to heads.
//!
//! Steps run in their order before anything is forwarded (nginx's rewrite phase); what is said of headers holds for the response, or for
//! the request to the endpoint, whatever stands behind it in the text. Must not be in here: how a program is run.

use std::sync::Arc;

use crate::template::Template;
use crate::{Expression, Networks};

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// What is done with a request.
    pub steps: Vec<Step>,
    /// What holds for its heads.
    pub headers: Headers,
}

/// One thing to do with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// What is looked at.
    pub subject: Template,
    /// What it has to be.
    pub check: Check,
    /// It must not be that.
    pub is_negated: bool,
}

/// What a value is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// It is neither empty nor `0`.
    IsTrue,
    /// It is this text.
    Equals(Template),
    /// The expression is found in it. Its groups are `$1` and so on from then on.
    Matches(Expression),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Return {
    /// HTTP status; 444 for none at all: the connection is closed.
    pub status: u16,
    /// What it says.
    pub content: ReturnContent,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReturnContent {
    /// What answers with the status say.
    Nothing,
    /// This text, of the media type of its block.
    Text(Template),
    /// Where the client is to go.
    Location(Template),
}

/// Another path (nginx's `rewrite`).
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
}

/// A change to a response, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseEdit {
    /// Name.
    pub name: String,
    /// Value; where it comes to nothing, there is no such header.
    pub value: Option<Template>,
    /// The statuses that it is for; empty for all.
    pub statuses: Vec<u16>,
}

/// A header that is added to responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedHeader {
    /// Name.
    pub name: String,
    /// Value; where it comes to nothing, the header is left out.
    pub value: Template,
    /// Whatever the status; otherwise only with 200, 201, 204, 206, 301 to 304, 307 and 308.
    pub always: bool,
}

/// A header that endpoints get in place of the client's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestEdit {
    /// Name.
    pub name: String,
    /// Value; where it comes to nothing, there is no such header.
    pub value: Option<Template>,
    /// It is as if the client had sent it: what the proxy says itself stands in its place, and an auth service is told it too.
    pub is_input: bool,
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
    }
}

impl AddedHeader {
    /// Whether responses with this status get it.
    pub fn is_for(&self, status: u16) -> bool {
        self.always || matches!(status, 200 | 201 | 204 | 206 | 301..=304 | 307 | 308)
    }
}

impl HostScript {
    /// The place that takes a path which a route of the host would take otherwise. nginx: an equal path comes first, then `^~` where
    /// it is the longest beginning, then expressions in their order, then the longest beginning.
    pub fn place(&self, path: &[u8], route: RoutePath<'_>) -> Option<&ScriptPlace> {
        let exact = self
            .places
            .iter()
            .find(|place| matches!(&place.path, ScriptPath::Exact(text) if text.as_bytes() == path));
        if exact.is_some() || route == RoutePath::Exact {
            return exact;
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
            return Some(place);
        }
        let matches = |place: &&ScriptPlace| matches!(&place.path, ScriptPath::Matching(pattern) if pattern.is_match(path));
        let matching = self.places.iter().find(matches);
        matching.or_else(|| longest.filter(|_| route != RoutePath::Expression))
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
            let found = host.place(path.as_bytes(), route)?;
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
}

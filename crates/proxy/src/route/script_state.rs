//! The results of a request's scripts.
//!
//! Never in here: how a script is run.

use model::{Captures, Headers, Pass};

/// The results of a request's scripts so far.
#[derive(Default)]
pub(crate) struct ScriptState<'a> {
    variables: Vec<(&'a str, Vec<u8>)>,
    /// The groups of the last expression.
    captures: Option<Box<[Option<Vec<u8>>; 9]>>,
    /// The path as it is now, normalised; none for the client's.
    path: Option<Vec<u8>>,
    /// The query as it is now; none for the client's.
    query: Option<Vec<u8>>,
    /// The headers of the host's block.
    outer: Option<&'a Headers>,
    /// The headers of the location's level.
    inner: Option<&'a Headers>,
    /// The headers of the last condition of the innermost level that held.
    condition: Option<&'a Headers>,
    /// The host has answered, so that nothing of its routes holds.
    pub(crate) is_of_host: bool,
    /// It is the question's to an auth service.
    pub(crate) is_of_question: bool,
    /// Path and query for endpoints; none for the client's.
    pub(crate) target: Option<Vec<u8>>,
    /// Where the request goes in place of its route's cluster.
    pub(crate) pass: Option<&'a Pass>,
}

/// The path of the question to an auth service, as `$uri` in its snippet; ingress-nginx adds the rule's
/// path, encoded.
const QUESTION_PATH: &[u8] = b"/_external-auth";

impl<'a> ScriptState<'a> {
    /// A program of the question to an auth service, which knows the values of the request's own program. It
    /// is about another path, and one without a query: a client cannot let itself in by `?let=me`.
    pub(crate) fn of_question(outer: Option<&'a ScriptState<'_>>, headers: &'a Headers) -> Self {
        let mut state = Self { outer: Some(headers), is_of_question: true, ..Self::default() };
        state.path = Some(QUESTION_PATH.to_vec());
        if let Some(outer) = outer {
            state.variables = outer.variables.iter().map(|(name, value)| (*name, value.clone())).collect();
            state.captures.clone_from(&outer.captures);
        }
        state
    }

    /// The path as it is now.
    pub(crate) fn path(&self) -> Option<&[u8]> {
        self.path.as_deref()
    }

    /// The query as it is now.
    pub(crate) fn query(&self) -> Option<&[u8]> {
        self.query.as_deref()
    }

    /// The value of a variable that a step has set; none before.
    pub(crate) fn variable(&self, name: &str) -> Option<&[u8]> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_slice())
    }

    /// Whether an expression of a script has looked at anything.
    pub(crate) fn has_captures(&self) -> bool {
        self.captures.is_some()
    }

    /// A group of the last expression of a script.
    pub(crate) fn capture(&self, group: u8) -> Option<&[u8]> {
        let at = usize::from(group).checked_sub(1)?;
        self.captures.as_ref()?.get(at)?.as_deref()
    }

    /// Begins with the program of a host, or of a place within it.
    pub(crate) fn enter(&mut self, outer: Option<&'a Headers>, inner: Option<&'a Headers>) {
        (self.outer, self.inner, self.condition) = (outer, inner, None);
        self.pass = None;
    }

    /// Enters a condition that holds: of several the last one's headers hold.
    pub(crate) fn enter_condition(&mut self, headers: &'a Headers) {
        self.condition = Some(headers);
        self.pass = None;
    }

    /// Goes on with another path and query. `target` is both as an endpoint is asked for them.
    pub(crate) fn go_to(&mut self, path: Vec<u8>, query: Vec<u8>, target: Vec<u8>) {
        (self.path, self.query, self.target) = (Some(path), Some(query), Some(target));
    }

    /// Gives a variable a value.
    pub(crate) fn set(&mut self, name: &'a str, value: Vec<u8>) {
        match self.variables.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.variables.push((name, value)),
        }
    }

    /// Keeps what the groups of an expression have found in a text.
    pub(crate) fn remember(&mut self, captures: &Captures, text: &[u8]) {
        let found = |at: usize| captures.get(at as u8 + 1).map(|range| text[range].to_vec());
        self.captures = Some(Box::new(std::array::from_fn(found)));
    }

    /// The headers that hold, the outermost first.
    pub(crate) fn headers(&self) -> impl DoubleEndedIterator<Item = &'a Headers> + Clone {
        [self.outer, self.inner, self.condition].into_iter().flatten()
    }

    /// The headers for a response that is made outside of the route's location.
    pub(crate) fn outer_headers(&self) -> impl DoubleEndedIterator<Item = &'a Headers> + Clone {
        let inner = if self.is_of_host { [self.inner, self.condition] } else { [None, None] };
        self.outer.into_iter().chain(inner.into_iter().flatten())
    }
}

//! HTTP and gRPC routes with names in common at a listener: "exactly one of these two" is accepted there, the
//! older one.
//!
//! Never in here: other reasons for which a listener refuses a route.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use model::HostName;

use super::at_parent::{AtParent, Lost};
use super::conditions::Fault;
use super::hostnames::Shared;
use super::kinds::RouteKind;
use super::pieces::{Pieces, RouteObject};

/// The lost listeners, by the index of the route and that of its parent.
pub(super) type AllLost = HashMap<(usize, usize), Vec<Lost>, FixedState>;

/// The names of one kind's routes at a listener, each with the index of the oldest route that has it.
#[derive(Default)]
struct Names<'r> {
    exact: HashMap<&'r str, usize, FixedState>,
    suffixes: HashMap<&'r str, usize, FixedState>,
    /// Suffixes of these names.
    above: HashMap<&'r str, usize, FixedState>,
    /// The oldest route for all names.
    all: Option<usize>,
    /// The oldest route with any name.
    any: Option<usize>,
}

impl<'r> Names<'r> {
    fn add(&mut self, name: &'r HostName, route: usize) {
        self.any.get_or_insert(route);
        let (names, text) = match name {
            HostName::Exact(text) => (&mut self.exact, text),
            HostName::Suffix(text) | HostName::OneLabel(text) => (&mut self.suffixes, text),
            HostName::Any => {
                self.all.get_or_insert(route);
                return;
            }
        };
        names.entry(text).or_insert(route);
        for suffix in suffixes(text) {
            self.above.entry(suffix).or_insert(route);
        }
    }

    /// The index of a route that has a name in common with this name.
    fn rival(&self, name: &HostName) -> Option<usize> {
        let (own, below, text) = match name {
            HostName::Any => return self.any,
            HostName::Exact(text) => (&self.exact, None, text),
            HostName::Suffix(text) | HostName::OneLabel(text) => {
                (&self.suffixes, self.above.get(text.as_str()), text)
            }
        };
        let wider = || suffixes(text).find_map(|suffix| self.suffixes.get(suffix));
        own.get(text.as_str()).or(below).or_else(wider).copied().or(self.all)
    }
}

/// The part of the name after each dot.
fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |name| Some(name.split_once('.')?.1)).skip(1)
}

/// A route that is attached to a listener.
struct Attachment<'r> {
    /// The indices of the route, of its parent and of the listener.
    route: usize,
    parent: usize,
    listener: usize,
    names: &'r [Shared],
    is_grpc: bool,
    /// No part of the route can be served.
    is_refused: bool,
}

/// Finds the routes that lose. `routes` has the oldest first. A route of which no part can be served takes no
/// name from others.
pub(super) fn find(routes: &[(&RouteObject, &[AtParent])], listeners: usize, pieces: &Pieces) -> AllLost {
    let mut lost = AllLost::default();
    let has = |kind: RouteKind| routes.iter().any(|(route, _)| route.kind() == kind);
    if !has(RouteKind::Grpc) || !has(RouteKind::Http) {
        return lost;
    }
    let mut asks: Vec<_> = (0..routes.len()).flat_map(|route| asks(route, routes, pieces)).collect();
    asks.sort_by_key(|ask| ask.is_refused);
    let mut names: Vec<[Names<'_>; 2]> = (0..listeners).map(|_| Default::default()).collect();
    for ask in asks {
        let [http, grpc] = &mut names[ask.listener];
        let (own, other) = if ask.is_grpc { (grpc, http) } else { (http, grpc) };
        if let Some((name, rival)) =
            ask.names.iter().find_map(|shared| Some((&shared.name, other.rival(&shared.name)?)))
        {
            let fault = fault(name, routes[rival].0);
            lost.entry((ask.route, ask.parent)).or_default().push(Lost { listener: ask.listener, fault });
        } else {
            for shared in ask.names {
                own.add(&shared.name, ask.route);
            }
        }
    }
    lost
}

/// The listeners to which an HTTP or gRPC route is attached.
fn asks<'r>(
    route: usize,
    routes: &[(&'r RouteObject, &'r [AtParent])],
    pieces: &'r Pieces,
) -> impl Iterator<Item = Attachment<'r>> + use<'r> {
    let (object, parents) = routes[route];
    let is_grpc = object.kind() == RouteKind::Grpc;
    let parents = if is_grpc || object.kind() == RouteKind::Http { parents } else { &[] };
    parents.iter().enumerate().flat_map(move |(parent, at)| {
        let places = at.attached.listeners.iter().flatten().zip(at.contents(pieces));
        places.map(move |((listener, names), content)| {
            let is_refused = content.refused.is_some();
            Attachment { route, parent, listener: *listener, names, is_grpc, is_refused }
        })
    })
}

fn fault(name: &HostName, rival: &RouteObject) -> Fault {
    let rival = rival.subject().object;
    let message = match name {
        HostName::Any => format!("it is for all hosts, of which {rival} has some at the same listener"),
        name => format!("{rival} has host {name}, or some of its names, at the same listener"),
    };
    Fault::new("HostnameConflict", message)
}

#[cfg(test)]
mod tests {
    use super::super::hostnames;
    use super::*;

    /// A name is found as a rival exactly if the two names have an intersection.
    #[test]
    fn a_rival_is_one_with_a_name_in_common() {
        let names = [
            "",
            "*.test",
            "*.a.test",
            "a.test",
            "x.a.test",
            "y.x.a.test",
            "*.x.a.test",
            "b.test",
            "test",
            "ba.test",
        ];
        let names = names.map(|text| HostName::parse_with_suffix(text).unwrap());
        for one in &names {
            for other in &names {
                let mut known = Names::default();
                known.add(one, 7);
                let expected = hostnames::intersection(one, other).map(|_| 7);
                assert_eq!(known.rival(other), expected, "{one} {other}");
            }
        }
    }

    #[test]
    fn the_oldest_of_a_name_is_the_rival() {
        let name = HostName::parse_with_suffix("a.test").unwrap();
        let mut names = Names::default();
        names.add(&name, 1);
        names.add(&name, 2);
        assert_eq!((names.rival(&name), names.rival(&HostName::Any)), (Some(1), Some(1)));
    }
}

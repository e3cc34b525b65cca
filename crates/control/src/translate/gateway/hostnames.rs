//! Hostnames of listeners and routes: whether they have names in common.
//!
//! Never in here: objects.

use std::cmp::Reverse;

use model::HostName;

use crate::objects::At;

/// The name of a listener; none stands for every name.
pub(super) fn of_listener(hostname: Option<&At<String>>) -> Result<HostName, String> {
    hostname.map_or(Ok(HostName::Any), |name| {
        HostName::parse_with_suffix(&name.value).map_err(|error| error.to_string())
    })
}

/// Whether `wide` stands for all names that `narrow` stands for.
pub(super) fn covers(wide: &HostName, narrow: &HostName) -> bool {
    match (wide, narrow) {
        (HostName::Any, _) => true,
        (HostName::Suffix(wide), HostName::Suffix(narrow)) => {
            narrow == wide || narrow.strip_suffix(wide.as_str()).is_some_and(|rest| rest.ends_with('.'))
        }
        (wide, HostName::Exact(name)) => wide.takes(name),
        _ => wide == narrow,
    }
}

/// The names that both stand for; none if they have no name in common. "A Hostname prefixed with a wildcard
/// label (`*.`) is interpreted as a suffix match": so one of the two always covers the other, or they have
/// nothing in common.
pub(crate) fn intersection(listener: &HostName, route: &HostName) -> Option<HostName> {
    if covers(listener, route) {
        Some(route.clone())
    } else {
        covers(route, listener).then(|| listener.clone())
    }
}

/// A name that a listener and a route have in common.
pub(super) struct Shared {
    pub(super) name: HostName,
    /// The rank of the route for the name, the smallest first.
    pub(super) width: Width,
}

/// How much wider a hostname of a route is than the name that it has in common with a listener. Of several
/// routes for a name the narrowest comes first: "implementations SHOULD evaluate precedence using the
/// original hostnames configured on the Route, not the calculated Listener/Route hostname intersection".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Width(u16);

impl Shared {
    /// `asked` is the hostname of the route, which covers the name.
    pub(super) fn of(name: HostName, asked: &HostName) -> Self {
        let width = Width::of(&name, asked);
        Self { name, width }
    }
}

impl Width {
    fn of(name: &HostName, asked: &HostName) -> Self {
        match (name, asked) {
            _ if name == asked => Self::default(),
            (_, HostName::Any) => Self(u16::MAX),
            // A suffix of a name that is no longer than 253 characters; a name below it counts as wider.
            _ => Self(1 + (text(name).len() - text(asked).len()) as u16),
        }
    }
}

fn text(name: &HostName) -> &str {
    match name {
        HostName::Exact(text) | HostName::OneLabel(text) | HostName::Suffix(text) => text,
        HostName::Any => "",
    }
}

/// The most specific of the names that cover a name.
pub(super) fn owner<'n>(name: &HostName, names: impl Iterator<Item = &'n HostName>) -> Option<&'n HostName> {
    names.filter(|wide| covers(wide, name)).min_by_key(|wide| by_specificity(wide))
}

/// The most specific name comes first: "exact before wildcard, and the largest number of characters".
fn by_specificity(name: &HostName) -> (u8, Reverse<usize>) {
    match name {
        HostName::Exact(name) => (0, Reverse(name.len())),
        HostName::OneLabel(suffix) | HostName::Suffix(suffix) => (1, Reverse(suffix.len())),
        HostName::Any => (2, Reverse(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        HostName::parse_with_suffix(text).unwrap()
    }

    #[test]
    fn names_in_common_are_those_of_the_narrower_one() {
        for (listener, route, expected) in [
            ("", "a.test", Some("a.test")),
            ("a.test", "", Some("a.test")),
            ("*.a.test", "x.a.test", Some("x.a.test")),
            ("*.a.test", "y.x.a.test", Some("y.x.a.test")),
            ("*.a.test", "a.test", None),
            ("*.a.test", "*.x.a.test", Some("*.x.a.test")),
            ("*.x.a.test", "*.a.test", Some("*.x.a.test")),
            ("x.a.test", "*.a.test", Some("x.a.test")),
            ("*.a.test", "*.ba.test", None),
            ("*.a.test", "*.b.a.test", Some("*.b.a.test")),
            ("a.test", "b.test", None),
        ] {
            assert_eq!(intersection(&name(listener), &name(route)), expected.map(name), "{listener} {route}");
        }
    }

    #[test]
    fn the_narrowest_name_has_the_least_width() {
        let widths = ["b.a.test", "*.a.test", "*.test", ""]
            .map(|asked| Shared::of(name("b.a.test"), &name(asked)).width);
        assert!(widths.is_sorted_by(|one, other| one < other), "{widths:?}");
        assert_eq!(widths[0], Width::default());
        let of_suffix = |asked| Shared::of(name("*.a.test"), &name(asked)).width;
        assert_eq!(of_suffix("*.a.test"), Width::default());
        assert!(of_suffix("*.test") > Width::default() && of_suffix("") > of_suffix("*.test"));
        assert_eq!(Shared::of(name(""), &name("")).width, Width::default());
    }

    #[test]
    fn the_most_specific_name_owns() {
        let names = ["", "*.test", "*.a.test", "b.a.test"].map(name);
        for (one, expected) in [
            ("b.a.test", "b.a.test"),
            ("c.a.test", "*.a.test"),
            ("*.a.test", "*.a.test"),
            ("a.test", "*.test"),
            ("x", ""),
        ] {
            assert_eq!(owner(&name(one), names.iter()), Some(&name(expected)), "{one}");
        }
    }
}

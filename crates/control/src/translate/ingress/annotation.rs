//! The entries of the table of annotations. Each concern has its own part of the table.

use super::Settings;
use crate::translate::value::Taken;

/// An annotation that ingress-nginx knows, with the scope and the default that ingress-nginx documents.
#[derive(Debug)]
pub struct Annotation {
    /// Name, without the prefix.
    pub name: &'static str,
    /// Its scope.
    pub scope: Scope,
    /// The value that asks for nothing: it needs no support.
    pub default: &'static str,
    /// What it is for.
    pub doc: &'static str,
    pub(super) effect: Effect,
    pub(super) bad_value: BadValue,
}

/// What becomes of a value that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadValue {
    /// The default holds, or what the `ConfigMap` says.
    Passed,
    /// The Ingress is ignored as if it did not exist.
    IgnoresIngress,
    /// The locations of the Ingress answer 503.
    ClosesLocations,
}

/// The scope of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each path of the Ingress.
    Location,
    /// The Ingress as a whole; in effect its hosts or its Services.
    Ingress,
}

/// How an annotation is handled.
#[derive(Debug)]
pub(super) enum Effect {
    /// Its value becomes part of the settings.
    Supported(fn(&mut Settings, &str) -> Taken),
    /// It has no counterpart here and needs none.
    Ignored(&'static str),
    /// It is not supported yet.
    Unsupported,
    /// It is not supported yet, and to serve without it could give access to somebody who must not have it. What it guards is
    /// closed.
    Restricting(Extent),
    /// Another name of an annotation in the table.
    AliasOf(&'static str),
}

/// What an access restriction covers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Extent {
    /// The locations of the Ingress.
    Locations,
    /// All locations of its hosts, whichever Ingress they are from.
    Host,
}

impl Annotation {
    /// How it is supported, as text for the documentation.
    pub fn support(&self) -> String {
        match self.effect {
            Effect::Supported(_) => "supported".to_owned(),
            Effect::Ignored(why) => format!("ignored: {why}"),
            Effect::Unsupported => "not yet; reported".to_owned(),
            Effect::Restricting(Extent::Locations) => "not yet; the Ingress answers 503".to_owned(),
            Effect::Restricting(Extent::Host) => "not yet; the host answers 503".to_owned(),
            Effect::AliasOf(name) => format!("another name of {name}"),
        }
    }

    /// Whether it has the same effect as in ingress-nginx.
    pub fn is_supported(&self) -> bool {
        matches!(self.effect, Effect::Supported(_))
    }
}

/// The slice of a concern: name, scope, default, effect and documentation of each annotation. Before the documentation, what becomes of
/// a bad value where it is not passed over.
macro_rules! annotations {
    ($($name:literal, $scope:ident, $default:literal, $effect:expr, $($bad:ident,)? $doc:literal;)*) => {
        /// The annotations of this concern.
        pub(super) const ANNOTATIONS: &[super::annotation::Annotation] = &[$(super::annotation::Annotation {
            name: $name,
            scope: $scope,
            default: $default,
            doc: $doc,
            effect: $effect,
            bad_value: super::annotation::bad_value!($($bad)?),
        },)*];
    };
}

macro_rules! bad_value {
    () => {
        super::annotation::BadValue::Passed
    };
    ($bad:ident) => {
        super::annotation::BadValue::$bad
    };
}

pub(super) use {annotations, bad_value};

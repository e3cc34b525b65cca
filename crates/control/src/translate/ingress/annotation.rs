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
    /// How much harm a value could do in ingress-nginx, which an operator may limit.
    pub risk: Risk,
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

/// How much harm the value of an annotation could do in ingress-nginx (`annotations-risk-level`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// None: a number, a word.
    #[default]
    Low,
    /// A text of few characters.
    Medium,
    /// A text with variables, or a regular expression.
    High,
    /// Configuration.
    Critical,
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
    /// Another name of an annotation in the table.
    AliasOf(&'static str),
}

impl Annotation {
    /// How it is supported, as text for the documentation.
    pub fn support(&self) -> String {
        match self.effect {
            Effect::Supported(_) => "supported".to_owned(),
            Effect::Ignored(why) => format!("ignored: {why}"),
            Effect::AliasOf(name) => format!("another name of {name}"),
        }
    }

    /// Makes a value part of settings, and says what of it has no effect, or why it cannot be read.
    pub(in crate::translate) fn read(&self, settings: &mut Settings, text: &str) -> Taken {
        match self.effect {
            Effect::Supported(parse) => parse(settings, text),
            Effect::Ignored(_) | Effect::AliasOf(_) => Ok(None),
        }
    }

    /// Whether a value that cannot be read has requests refused, rather than served with the default.
    pub(in crate::translate) fn is_strict(&self) -> bool {
        self.bad_value != BadValue::Passed
    }

    /// Whether it has the same effect as in ingress-nginx.
    pub fn is_supported(&self) -> bool {
        matches!(self.effect, Effect::Supported(_))
    }
}

/// The slice of a concern: name, scope, default, effect and documentation of each annotation. Before the documentation, what becomes of
/// a bad value where it is not passed over; behind it the risk where it is not low.
macro_rules! annotations {
    ($($name:literal, $scope:ident, $default:literal, $effect:expr, $($bad:ident,)? $doc:literal $(, $risk:ident)?;)*) => {
        /// The annotations of this concern.
        pub(super) const ANNOTATIONS: &[super::annotation::Annotation] = &[$(super::annotation::Annotation {
            name: $name,
            scope: $scope,
            default: $default,
            doc: $doc,
            risk: super::annotation::risk!($($risk)?),
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

macro_rules! risk {
    () => {
        super::annotation::Risk::Low
    };
    ($risk:ident) => {
        super::annotation::Risk::$risk
    };
}

pub(super) use {annotations, bad_value, risk};

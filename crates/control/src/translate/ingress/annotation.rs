//! The entries of the table of annotations. Each concern has its own part of the table.

use super::Settings;
use crate::translate::value::Applied;

/// An annotation that ingress-nginx knows, with the scope and the default that ingress-nginx documents.
#[derive(Debug)]
pub struct Annotation {
    /// Name, without the prefix.
    pub name: &'static str,
    /// The scope that ingress-nginx documents.
    pub scope: Scope,
    /// The value without an effect: it needs no support.
    pub default: &'static str,
    /// The purpose of the annotation.
    pub doc: &'static str,
    /// The harm that a value could do in ingress-nginx, which an operator may limit.
    pub risk: Risk,
    pub(super) effect: Effect,
    pub(super) bad_value: BadValue,
}

/// The handling of an invalid value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadValue {
    /// The default applies, or the value of the `ConfigMap`.
    Passed,
    /// The Ingress is ignored as if it did not exist.
    IgnoresIngress,
    /// The locations of the Ingress answer 503.
    ClosesLocations,
}

/// The harm that the value of an annotation could do in ingress-nginx (`annotations-risk-level`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// No harm: a number or a word.
    #[default]
    Low,
    /// A text of few characters.
    Medium,
    /// A text with variables, or a regular expression.
    High,
    /// A text that becomes nginx configuration.
    Critical,
}

/// The scope of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each path of the Ingress separately.
    Location,
    /// The whole Ingress: its hosts or its Services.
    Ingress,
}

/// The handling of an annotation.
#[derive(Debug)]
pub(super) enum Effect {
    /// The value becomes part of the settings.
    Supported(fn(&mut Settings, &str) -> Applied),
    /// The annotation has no counterpart here and needs none.
    Ignored(&'static str),
    /// Another name of an annotation in the table.
    AliasOf(&'static str),
}

impl Annotation {
    /// The support of the annotation, as text for the documentation.
    pub fn support(&self) -> String {
        match self.effect {
            Effect::Supported(_) => "supported".to_owned(),
            Effect::Ignored(why) => format!("ignored: {why}"),
            Effect::AliasOf(name) => format!("another name of {name}"),
        }
    }

    /// Applies a value to the settings. Returns a remark about a part without effect, or the error.
    pub(in crate::translate) fn read(&self, settings: &mut Settings, text: &str) -> Applied {
        match self.effect {
            Effect::Supported(parse) => parse(settings, text),
            Effect::Ignored(_) | Effect::AliasOf(_) => Ok(None),
        }
    }

    /// Whether an invalid value has requests refused, instead of served with the default.
    pub(in crate::translate) fn is_strict(&self) -> bool {
        self.bad_value != BadValue::Passed
    }

    /// Whether the annotation has the same effect as in ingress-nginx.
    pub fn is_supported(&self) -> bool {
        matches!(self.effect, Effect::Supported(_))
    }
}

/// The slice of a concern: name, scope, default, effect and documentation of each annotation. The handling of
/// an invalid value precedes the documentation if it is not `Passed`; the risk follows it if it is not `Low`.
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

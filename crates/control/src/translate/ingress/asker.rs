//! Who asks for settings, as the readers of settings see it: an Ingress with its annotations, or what policies say for a rule of a route.
//!
//! Settings are named by their annotations, without a prefix. Never in here: what a setting means.

use crate::problem::{Place, Problem, Severity};

/// Who asks for settings.
pub(in crate::translate) trait Asker {
    /// The namespace of what is named without one.
    fn namespace(&self) -> &str;

    /// The place of the asker as a whole.
    fn place(&self) -> Place;

    /// Where a setting is given; none if it is not.
    fn given(&self, name: &str) -> Option<Place>;

    /// The names of all settings that are given.
    fn names(&self) -> Vec<&str>;

    /// What the asker calls a setting, beside others of its own: `auth-url`.
    fn short(&self, name: &str) -> String;

    /// What a setting is called where it is given: `nginx.ingress.kubernetes.io/auth-url`.
    fn key(&self, name: &str) -> String;

    /// The same with what it is: `annotation nginx.ingress.kubernetes.io/auth-url`.
    fn called(&self, name: &str) -> String;

    /// What is closed where a setting cannot be enforced.
    fn closed(&self) -> &'static str;
}

impl dyn Asker + '_ {
    /// A problem of a setting, which is that of the whole asker where the setting is not given.
    pub(super) fn problem(&self, severity: Severity, name: &str, message: impl Into<String>) -> Problem {
        Problem::in_place(severity, &self.given(name).unwrap_or_else(|| self.place()), message)
    }

    /// What is said where a setting closes what asks for it.
    pub(super) fn closing(&self, what: &str, why: &str) -> String {
        format!("{what}: {why}: {} return 503", self.closed())
    }
}

//! Access by the client's country and autonomous system, which databases have for its address.

use std::sync::Arc;

use geo::{Countries, Coverage, Systems};
use model::ClientPlaces;

use super::annotation::Effect::Supported;
use super::annotation::Scope::Location;
use super::annotation::annotations;
use super::resolve::{Context, Findings, Resolve};
use crate::problem::Reason;
use crate::translate::claim::DraftRoute;
use crate::translate::value::{Parsed, set};

annotations! {
    "allow-asn", Location, "", Supported(|s, v| set(&mut s.access.places.rules.allowed_systems, systems(v))), ClosesLocations,
        "Autonomous systems of clients that are allowed: `64496,AS64500`; others, and addresses of unknown systems, get 403.", Medium;
    "allow-countries", Location, "", Supported(|s, v| set(&mut s.access.places.rules.allowed_countries, countries(v))), ClosesLocations,
        "Countries of clients that are allowed, by their codes of ISO 3166-1: `DE,AT`; others, and addresses of unknown countries, get 403.", Medium;
    "deny-asn", Location, "", Supported(|s, v| set(&mut s.access.places.rules.denied_systems, systems(v))), ClosesLocations,
        "Autonomous systems of clients that get 403.", Medium;
    "deny-countries", Location, "", Supported(|s, v| set(&mut s.access.places.rules.denied_countries, countries(v))), ClosesLocations,
        "Countries of clients that get 403.", Medium;
}

/// The annotations about countries, and those about autonomous systems.
const OF_COUNTRIES: [&str; 2] = ["allow-countries", "deny-countries"];
const OF_SYSTEMS: [&str; 2] = ["allow-asn", "deny-asn"];

const NOT_USED: &str = "no database of addresses is used: use-geoip2 of the ConfigMap is not \"true\"";

/// Settings of access by place.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    pub(in crate::translate) rules: ClientPlaces,
    /// The questions that loaded databases can answer.
    pub(in crate::translate) coverage: Coverage,
    /// Databases are used at all.
    pub(in crate::translate) uses_databases: bool,
}

impl Settings {
    /// The reason why countries are not known.
    pub(in crate::translate) fn lacks_countries(&self) -> &'static str {
        if self.uses_databases { "no database of countries is loaded" } else { NOT_USED }
    }

    fn lacks_systems(&self) -> &'static str {
        if self.uses_databases { "no database of autonomous systems is loaded" } else { NOT_USED }
    }

    /// The annotations whose rules no database can decide about, each with the reason.
    pub(in crate::translate) fn unenforceable(&self) -> Vec<(&'static str, &'static str)> {
        let lacks = |is_needed: bool, has: bool, names: [&'static str; 2], why: &'static str| {
            names.into_iter().filter(move |_| is_needed && !has).map(move |name| (name, why))
        };
        let Self { rules, coverage, .. } = self;
        let of_countries =
            lacks(rules.need_countries(), coverage.countries, OF_COUNTRIES, self.lacks_countries());
        let of_systems = lacks(rules.need_systems(), coverage.systems, OF_SYSTEMS, self.lacks_systems());
        of_countries.chain(of_systems).collect()
    }
}

/// Applies the rules to a route, and closes it if they cannot be enforced.
pub(super) fn apply(settings: &Settings, route: &mut DraftRoute) {
    let is_open = settings.rules == ClientPlaces::default();
    route.access.places = (!is_open).then(|| Arc::new(settings.rules.clone()));
    if let Some((_, why)) = settings.unenforceable().first() {
        route.denials.push(format!("rules by country or autonomous system cannot be enforced: {why}"));
    }
}

impl Resolve for Settings {
    type Resolved = ();

    /// Reports rules of the asker that cannot be enforced.
    fn resolve(&mut self, context: &Context<'_, '_>, findings: &mut Findings<'_>) {
        for (name, why) in self.unenforceable() {
            if context.asker.given(name).is_some() {
                findings.problems.push(context.closing(name, (Reason::Missing, why.to_owned())));
            }
        }
    }
}

/// Parses codes of countries.
pub(in crate::translate) fn countries(text: &str) -> Parsed<Option<Countries>> {
    Countries::parse(text).map(Some).map_err(|error| error.to_string())
}

/// Parses numbers of autonomous systems.
pub(in crate::translate) fn systems(text: &str) -> Parsed<Option<Systems>> {
    Systems::parse(text).map(Some).map_err(|error| error.to_string())
}

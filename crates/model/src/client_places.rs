use geo::{Countries, Country, Systems};
use serde::Serialize;

/// The clients that a route admits by where their addresses are and whose they are; others are answered with
/// 403. A database decides about an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClientPlaces {
    /// Countries that are refused even if [`allowed_countries`](Self::allowed_countries) has them.
    pub denied_countries: Option<Countries>,
    /// Countries that may; none for all. An address of an unknown country is in none of them.
    pub allowed_countries: Option<Countries>,
    /// Autonomous systems that are refused even if [`allowed_systems`](Self::allowed_systems) has them.
    pub denied_systems: Option<Systems>,
    /// Autonomous systems that may; none for all. An address of an unknown system is in none of them.
    pub allowed_systems: Option<Systems>,
}

impl ClientPlaces {
    /// Whether the rules are about countries.
    pub fn need_countries(&self) -> bool {
        self.denied_countries.is_some() || self.allowed_countries.is_some()
    }

    /// Whether the rules are about autonomous systems.
    pub fn need_systems(&self) -> bool {
        self.denied_systems.is_some() || self.allowed_systems.is_some()
    }

    /// Whether clients of a country may use the route.
    pub fn admit_country(&self, country: Option<Country>) -> bool {
        let holds = |set: &Countries| country.is_some_and(|country| set.contains(country));
        !self.denied_countries.as_ref().is_some_and(holds)
            && self.allowed_countries.as_ref().is_none_or(holds)
    }

    /// Whether clients of an autonomous system may use the route.
    pub fn admit_system(&self, system: Option<u32>) -> bool {
        let holds = |set: &Systems| system.is_some_and(|system| set.contains(system));
        !self.denied_systems.as_ref().is_some_and(holds) && self.allowed_systems.as_ref().is_none_or(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_place_is_refused_by_lists_of_those_that_may_only() {
        let of = |text: &str| Some(Countries::parse(text).unwrap());
        let country = |code: &str| Some(Country::parse(code).unwrap());
        let denied = ClientPlaces { denied_countries: of("DE"), ..ClientPlaces::default() };
        assert!(denied.admit_country(None) && denied.admit_country(country("AT")));
        assert!(!denied.admit_country(country("DE")));
        let both = ClientPlaces { allowed_countries: of("DE,AT"), ..denied };
        assert!(!both.admit_country(None) && both.admit_country(country("AT")));
        assert!(!both.admit_country(country("DE")) && !both.admit_country(country("CH")));
        let systems = |text: &str| Some(Systems::parse(text).unwrap());
        let allowed = ClientPlaces { allowed_systems: systems("64496"), ..ClientPlaces::default() };
        assert!(allowed.admit_system(Some(64496)) && !allowed.admit_system(None));
        assert!(allowed.need_systems() && !allowed.need_countries());
    }
}

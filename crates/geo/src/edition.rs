//! The editions of databases that ingress-nginx knows.

use std::fmt;
use std::str::FromStr;

/// The content of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Countries and continents.
    Country,
    /// Cities, with their countries.
    City,
    /// Autonomous systems, by number and name.
    Asn,
    /// Internet providers, with their autonomous systems.
    Isp,
    /// Proxies, networks for anonymity, and hosting providers.
    Anonymous,
    /// Types of connections.
    ConnectionType,
    /// Names of second-level domains. No variable has them.
    Domain,
}

/// A database by the name that its publisher gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edition {
    /// Name of the edition, and of its file without `.mmdb`.
    pub name: &'static str,
    /// The content of the database.
    pub kind: Kind,
}

/// All editions, by name.
pub const EDITIONS: &[Edition] = &[
    Edition { name: "GeoIP2-ASN", kind: Kind::Asn },
    Edition { name: "GeoIP2-Anonymous-IP", kind: Kind::Anonymous },
    Edition { name: "GeoIP2-City", kind: Kind::City },
    Edition { name: "GeoIP2-Connection-Type", kind: Kind::ConnectionType },
    Edition { name: "GeoIP2-Country", kind: Kind::Country },
    Edition { name: "GeoIP2-Domain", kind: Kind::Domain },
    Edition { name: "GeoIP2-ISP", kind: Kind::Isp },
    Edition { name: "GeoLite2-ASN", kind: Kind::Asn },
    Edition { name: "GeoLite2-City", kind: Kind::City },
    Edition { name: "GeoLite2-Country", kind: Kind::Country },
];

/// No edition has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the name of an edition; did you mean {nearest}?")]
pub struct UnknownEdition {
    text: String,
    nearest: &'static str,
}

impl Edition {
    /// The name of the file with the database.
    pub fn file_name(self) -> String {
        format!("{}.mmdb", self.name)
    }
}

impl fmt::Display for Edition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for Edition {
    type Err = UnknownEdition;

    fn from_str(text: &str) -> Result<Self, UnknownEdition> {
        let found = EDITIONS.iter().find(|edition| edition.name == text);
        found.copied().ok_or_else(|| {
            let likeness = |edition: &&Edition| strsim::jaro_winkler(edition.name, text);
            let nearest = EDITIONS.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
            UnknownEdition {
                text: text.to_owned(),
                nearest: nearest.map_or("GeoLite2-City", |edition| edition.name),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edition_is_found_by_its_exact_name() {
        assert_eq!("GeoLite2-City".parse::<Edition>().unwrap().kind, Kind::City);
        let error = "geolite2-city".parse::<Edition>().unwrap_err().to_string();
        assert_eq!(error, "\"geolite2-city\" is not the name of an edition; did you mean GeoLite2-City?");
        assert!(EDITIONS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}

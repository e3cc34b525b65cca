//! Sets of countries.

use serde::{Serialize, Serializer};

use crate::country::{Country, InvalidCountry, NAMES};

/// Bits of a word.
const BITS: usize = u64::BITS as usize;

/// A set of countries, with one bit for each code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Countries([u64; Country::CODES.div_ceil(BITS)]);

impl Countries {
    /// Parses codes separated by commas, in upper or lower case.
    ///
    /// # Errors
    ///
    /// An item is not the code of a country.
    pub fn parse(text: &str) -> Result<Self, InvalidCountry> {
        let mut set = Self::default();
        for item in text.split(',') {
            let index = Country::parse(item.trim())?.index();
            set.0[index / BITS] |= 1 << (index % BITS);
        }
        Ok(set)
    }

    /// Whether the set has this country.
    pub fn contains(&self, country: Country) -> bool {
        let index = country.index();
        self.0[index / BITS] >> (index % BITS) & 1 == 1
    }

    /// The countries of the set, by code.
    pub fn iter(&self) -> impl Iterator<Item = Country> {
        let all = NAMES.iter().filter_map(|(code, _)| Country::of_code(code));
        all.filter(|&country| self.contains(country))
    }
}

/// As a list of codes.
impl Serialize for Countries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|country| country.code().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_named_and_nothing_else() {
        let set = Countries::parse("DE, at,ZW").unwrap();
        let codes: Vec<_> = set.iter().map(|country| country.code().to_owned()).collect();
        assert_eq!(codes, ["AT", "DE", "ZW"]);
        assert!(Countries::parse("DE,").is_err() && Countries::parse("").is_err());
    }
}

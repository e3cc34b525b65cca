//! Sets of autonomous systems, by number.

use serde::Serialize;

/// Numbers of autonomous systems, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Systems(Box<[u32]>);

/// A text is not the number of an autonomous system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the number of an autonomous system, such as 64496 or AS64496")]
pub struct InvalidSystem(String);

impl Systems {
    /// Parses numbers separated by commas, each with or without `AS` before it.
    ///
    /// # Errors
    ///
    /// An item is not such a number.
    pub fn parse(text: &str) -> Result<Self, InvalidSystem> {
        let mut numbers = text.split(',').map(number).collect::<Result<Vec<u32>, _>>()?;
        numbers.sort_unstable();
        numbers.dedup();
        Ok(Self(numbers.into()))
    }

    /// Whether the set has this number.
    pub fn contains(&self, number: u32) -> bool {
        self.0.binary_search(&number).is_ok()
    }
}

fn number(item: &str) -> Result<u32, InvalidSystem> {
    let item = item.trim();
    let invalid = || InvalidSystem(item.to_owned());
    let has_prefix = item.get(..2).is_some_and(|prefix| prefix.eq_ignore_ascii_case("as"));
    let digits = if has_prefix { &item[2..] } else { item };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid());
    }
    digits.parse().ok().filter(|&number| number > 0).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_and_without_their_prefix() {
        let systems = Systems::parse("64500, AS64496,as64497").unwrap();
        assert!([64496, 64497, 64500].iter().all(|&number| systems.contains(number)));
        assert!(!systems.contains(64498));
        for text in ["", "AS", "64496,", "-1", "+1", "0", "4294967296", "ASN1", "AS64496 64497", "ä1"] {
            assert!(Systems::parse(text).is_err(), "{text:?}");
        }
    }
}

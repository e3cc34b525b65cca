//! Maps that are written once and exist in great numbers.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// A map, sorted by name. It needs no memory beyond its entries; changing it costs a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map<V>(Box<[(Box<str>, V)]>);

impl<V> Map<V> {
    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&V> {
        let at = self.place(name).ok()?;
        Some(&self.0[at].1)
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Adds a value, or replaces the one with the same name.
    pub fn insert(&mut self, name: &str, value: V) {
        let place = self.place(name);
        let mut entries = std::mem::take(&mut self.0).into_vec();
        match place {
            Ok(at) => entries[at].1 = value,
            Err(at) => entries.insert(at, (name.into(), value)),
        }
        self.0 = entries.into();
    }

    /// Keeps only the entries whose name `takes` accepts.
    pub(super) fn retain(&mut self, takes: impl Fn(&str) -> bool) {
        let entries = std::mem::take(&mut self.0).into_vec();
        self.0 = entries.into_iter().filter(|(name, _)| takes(name)).collect();
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name))
    }
}

impl<V> Default for Map<V> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Map<V> {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
        de.deserialize_map(Entries(PhantomData))
    }
}

struct Entries<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
    type Value = Map<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Map<V>, A::Error> {
        let mut entries: Vec<(Box<str>, V)> = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        // If a name occurs several times, the last value counts.
        entries.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
        Ok(Map(entries.into()))
    }
}

impl<V: Serialize> Serialize for Map<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_order_and_the_last_of_a_name_counts() {
        let text = r#"{"b": 1, "a": 2, "c": 3, "b": 4}"#;
        let mut map: Map<u8> = serde_json::from_str(text).unwrap();
        assert_eq!(map.iter().collect::<Vec<_>>(), [("a", &2), ("b", &4), ("c", &3)]);
        assert_eq!((map.get("b"), map.get("d")), (Some(&4), None));
        map.insert("aa", 5);
        map.insert("c", 6);
        map.retain(|name| name != "a");
        assert_eq!(serde_json::to_string(&map).unwrap(), r#"{"aa":5,"b":4,"c":6}"#);
    }
}

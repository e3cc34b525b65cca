//! How values are read that Kubernetes writes in more than one way.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_saphyr::Spanned;

/// Reads `null` as the default: that is what the API server does, and what templates leave behind.
pub(super) fn nullable<'de, D, T>(de: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(de).map(Option::unwrap_or_default)
}

/// The same of a list, without room for more: there are many of them, most with one item, and no one adds to them.
pub(super) fn list<'de, D, T>(de: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let mut items = Option::<Vec<T>>::deserialize(de)?.unwrap_or_default();
    items.shrink_to_fit();
    Ok(items)
}

/// A value and the line that it stands on, where a file holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Line in its YAML document, from 1; 0 where no file holds it.
    pub line: u32,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(de: D) -> Result<Self, D::Error> {
        let spanned = Spanned::deserialize(de)?;
        let line = u32::try_from(spanned.referenced.line()).unwrap_or_default();
        Ok(Self { value: spanned.value, line })
    }
}

impl<T: Serialize> Serialize for At<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

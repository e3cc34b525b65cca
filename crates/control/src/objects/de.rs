//! Deserialization of values that Kubernetes writes in more than one form.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use serde_saphyr::Spanned;

/// Reads `null` as the default. The API server does so too, and templates often produce `null`.
pub(super) fn nullable<'de, D, T>(de: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(de).map(Option::unwrap_or_default)
}

/// Reads `null` as an empty list, and shrinks a list to its length: there are many lists, most have one item,
/// and none grows later.
pub(super) fn list<'de, D, T>(de: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let mut items = Option::<Vec<T>>::deserialize(de)?.unwrap_or_default();
    items.shrink_to_fit();
    Ok(items)
}

/// Reads a list as [`list`] does, for objects that exist in great numbers: such a list has no capacity.
pub(super) fn boxed_list<'de, D, T>(de: D) -> Result<Box<[T]>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(de)?.unwrap_or_default().into())
}

/// A value and, if it was read from a file, the line that it is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At<T> {
    /// The value itself.
    pub value: T,
    /// Line within its YAML document, from 1; 0 if it was not read from a file.
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

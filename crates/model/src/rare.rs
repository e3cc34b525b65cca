//! Lists that are empty in most cases. Must not be in here: the meaning of items.

use std::ops::Deref;

use serde::{Serialize, Serializer};

/// Items that most holders do not have. Without items it takes one pointer, and there may be 100,000 of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rare<T>(Option<Box<Present<T>>>);

/// At least one item.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Present<T>(Box<[T]>);

impl<T> Deref for Rare<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Some(present) => &present.0,
            None => &[],
        }
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> From<Vec<T>> for Rare<T> {
    fn from(items: Vec<T>) -> Self {
        Self((!items.is_empty()).then(|| Box::new(Present(items.into()))))
    }
}

impl<T> FromIterator<T> for Rare<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        items.into_iter().collect::<Vec<_>>().into()
    }
}

impl<T: Serialize> Serialize for Rare<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&**self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_items_take_one_pointer() {
        let (none, some) = (Rare::<u8>::from(Vec::new()), Rare::from_iter([1, 2]));
        assert_eq!((&*none, &*some, size_of_val(&some)), (&[][..], &[1, 2][..], 8));
        assert_eq!(none, Rare::default());
        assert_eq!(serde_json::to_string(&[none, some]).unwrap(), "[[],[1,2]]");
    }
}

//! Numbers of which there is one in most cases.
//!
//! Never in here: the meaning of the numbers.

use std::ops::Deref;

/// Numbers that are stored once and exist in great numbers: 16 bytes, and no allocation for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Handful {
    One(u32),
    /// None, or two or more.
    Others(Box<[u32]>),
}

impl Default for Handful {
    fn default() -> Self {
        Self::Others(Box::default())
    }
}

impl From<&[u32]> for Handful {
    fn from(numbers: &[u32]) -> Self {
        match numbers {
            &[one] => Self::One(one),
            others => Self::Others(others.into()),
        }
    }
}

impl Deref for Handful {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Others(others) => others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_order() {
        for numbers in [&[][..], &[7], &[7, 3, 5]] {
            assert_eq!(*Handful::from(numbers), *numbers);
        }
        assert_eq!((Handful::default().len(), size_of::<Handful>()), (0, 16));
    }
}

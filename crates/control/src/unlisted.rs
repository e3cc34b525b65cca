//! The reason why the objects of a cluster could not be listed.

use std::fmt;

use crate::source::cluster::Condition;

/// Not all objects of a cluster could be listed.
#[derive(Debug)]
pub struct Unlisted {
    url: String,
    condition: Condition,
}

impl Unlisted {
    pub(crate) fn new(url: String, condition: Condition) -> Self {
        Self { url, condition }
    }
}

impl fmt::Display for Unlisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, condition } = self;
        write!(f, "{url} does not list {}", condition.waiting.join(", "))?;
        condition.troubles.iter().try_for_each(|trouble| write!(f, "; {trouble}"))
    }
}

impl std::error::Error for Unlisted {}

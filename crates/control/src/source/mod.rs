//! Where objects come from.
//!
//! A source keeps its objects, in order, and what is wrong with how they are written. It never says what they mean.

pub mod cluster;
pub mod files;
pub(crate) mod following;
mod manifest;
pub(crate) mod watch;

use std::collections::BTreeMap;

/// Numbers of things that were passed over, by what they are: kinds that are not understood, Ingresses of other classes.
pub type PassedOver = BTreeMap<String, usize>;

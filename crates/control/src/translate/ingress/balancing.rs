//! Load balancing settings, which apply to a Service's port, whatever route uses it.

use std::sync::Arc;

use model::HashBy;
use model::template::Template;

use super::annotation::Effect::Supported;
use super::annotation::Scope::{Ingress, Location};
use super::annotation::annotations;
use crate::translate::value::{self, Applied, Parsed, set};

annotations! {
    "load-balance", Location, "round_robin", Supported(|s, v| set(&mut s.balancing.balance, value::balance(v))), IgnoresIngress,
        "How endpoints are picked: `round_robin` or `ewma`.";
    "service-upstream", Ingress, "false", Supported(|s, v| set(&mut s.balancing.by_virtual_address, value::boolean(v))),
        "Sends requests to the Service's virtual address.";
    "upstream-hash-by", Location, "", Supported(|s, v| s.hashing.read_key(v)), IgnoresIngress,
        "Picks endpoints by the hash of this value.", High;
    "upstream-hash-by-subset", Location, "false", Supported(|s, v| set(&mut s.hashing.has_subsets, value::boolean(v))), IgnoresIngress,
        "Picks a group of endpoints by hash.";
    "upstream-hash-by-subset-size", Location, "3", Supported(|s, v| set(&mut s.hashing.subset_size, subset_size(v))), IgnoresIngress,
        "Endpoints in a group.";
}

/// Settings of load balancing by hash.
#[derive(Clone, Debug, Default)]
pub(in crate::translate) struct Settings {
    key: Option<Template>,
    has_subsets: bool,
    /// The size of a subset; none for the default.
    subset_size: Option<usize>,
}

const SUBSET_SIZE: usize = 3;

impl Settings {
    /// The hash settings for the Services that the Ingress names.
    pub(super) fn of_backends(&self) -> Option<Arc<HashBy>> {
        let subset = self.has_subsets.then_some(self.subset_size.unwrap_or(SUBSET_SIZE));
        self.key.clone().map(|key| Arc::new(HashBy { key, subset }))
    }

    /// Reads the key. An unknown variable is not invalid in ingress-nginx, but has an empty value in each
    /// request.
    fn read_key(&mut self, text: &str) -> Applied {
        let text = value::characters(text, value::VARIABLE)?;
        match Template::parse(&text) {
            Ok(key) => {
                self.key = Some(key);
                Ok(None)
            }
            Err(error) => Ok(Some(format!("{error}, so that it is not hashed"))),
        }
    }
}

/// Parses the size. Zero, negative numbers, and the default itself stand for the default.
fn subset_size(text: &str) -> Parsed<Option<usize>> {
    let size: i64 = value::number(text)?;
    Ok(usize::try_from(size).ok().filter(|&size| size > 0 && size != SUBSET_SIZE))
}

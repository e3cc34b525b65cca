//! Load balancing. It holds for a Service's port, whichever route uses it.

use super::annotation::Effect::{Supported, Unsupported};
use super::annotation::Scope::{Ingress, Location};
use super::annotation::annotations;
use crate::translate::value::{self, set};

annotations! {
    "load-balance", Location, "round_robin", Supported(|s, v| set(&mut s.balancing.balance, value::balance(v))), IgnoresIngress,
        "How endpoints are picked: `round_robin` or `ewma`.";
    "service-upstream", Ingress, "false", Supported(|s, v| set(&mut s.balancing.by_virtual_address, value::boolean(v))),
        "Sends requests to the Service's virtual address.";
    "upstream-hash-by", Location, "", Unsupported, "Picks endpoints by the hash of this value.";
    "upstream-hash-by-subset", Location, "false", Unsupported, "Picks a group of endpoints by hash.";
    "upstream-hash-by-subset-size", Location, "3", Unsupported, "Endpoints in a group.";
}

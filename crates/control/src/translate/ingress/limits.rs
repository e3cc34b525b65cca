//! Rate limits for each client. Not supported yet.

use super::annotation::Effect::{AliasOf, Unsupported};
use super::annotation::Scope::Location;
use super::annotation::annotations;

annotations! {
    "limit-allowlist", Location, "", Unsupported, "Networks that limits do not hold for.";
    "limit-burst-multiplier", Location, "5", Unsupported, "Burst, as a multiple of the rate.";
    "limit-connections", Location, "0", Unsupported, "Connections of one client at a time.";
    "limit-rate", Location, "0", Unsupported, "Speed of a response in KiB/s.";
    "limit-rate-after", Location, "0", Unsupported, "KiB of a response before `limit-rate` holds.";
    "limit-rpm", Location, "0", Unsupported, "Requests of one client in a minute.";
    "limit-rps", Location, "0", Unsupported, "Requests of one client in a second.";
    "limit-whitelist", Location, "", AliasOf("limit-allowlist"), "Former name of `limit-allowlist`.";
}

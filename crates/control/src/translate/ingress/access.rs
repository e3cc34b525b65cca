//! Access by client address. It is not enforced yet, so that locations which ask for it are closed.

use super::annotation::Effect::{AliasOf, Restricting};
use super::annotation::Extent;
use super::annotation::Scope::Location;
use super::annotation::annotations;

annotations! {
    "allowlist-source-range", Location, "", Restricting(Extent::Locations),
        "Networks of clients that are let in; others get 403.";
    "denylist-source-range", Location, "", Restricting(Extent::Locations),
        "Networks of clients that get 403.";
    "satisfy", Location, "all", Restricting(Extent::Locations),
        "Whether `any` access check suffices, or `all` are needed.";
    "whitelist-source-range", Location, "", AliasOf("allowlist-source-range"),
        "Former name of `allowlist-source-range`.";
}

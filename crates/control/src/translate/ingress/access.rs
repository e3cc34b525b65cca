//! Who may come, by address. None of it is enforced yet, so that what asks for it is closed.

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

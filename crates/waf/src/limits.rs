//! The bounds of the firewall.
//!
//! Never in here: settings of rules.

/// Bytes that one compiled expression may take.
pub(crate) const EXPRESSION_BYTES_MAX: usize = 8 << 20;

/// Bytes of the states that one expression keeps while it searches; beyond, states are made again.
pub(crate) const EXPRESSION_CACHE_BYTES_MAX: usize = 256 << 10;

/// Steps of one expression with look-around, atomic groups or references to groups, as it is compiled.
pub(crate) const PROGRAM_STEPS_MAX: usize = 100_000;

/// Steps of one search for such an expression; beyond, it is not known whether the text matches.
pub(crate) const BACKTRACK_STEPS_BASE: usize = 500_000;

/// Steps that a search may take more for each byte of its text.
pub(crate) const BACKTRACK_STEPS_PER_BYTE: usize = 16;

/// Ways that one search keeps, to go back to.
pub(crate) const BACKTRACK_FRAMES_MAX: usize = 1 << 20;

/// Bytes of an expression with the values of its macros.
pub(crate) const EXPANDED_EXPRESSION_BYTES_MAX: usize = 16 << 10;

/// Expressions that one rule with macros in `@rx` keeps for other values.
pub(crate) const EXPANDED_EXPRESSIONS_MAX: usize = 16;

/// Rule sources that may include one another, from the first to the last.
pub(crate) const INCLUDE_DEPTH_MAX: usize = 16;

/// Sources of one rule set, with all that are included.
pub(crate) const SOURCES_MAX: usize = 1_000;

/// Links of one chain.
pub(crate) const CHAIN_LINKS_MAX: usize = 64;

/// Names in `TX`, `ENV` and one persistent collection; what rules set beyond that is dropped.
pub(crate) const NAMES_MAX: usize = 1_000;

/// Bytes of a value that a rule sets; what is longer is cut.
pub(crate) const SET_BYTES_MAX: usize = 64 << 10;

/// Arguments of a request without `SecArgumentsLimit`, for which ModSecurity 3 has no bound.
pub(crate) const ARGUMENTS_MAX: usize = 100_000;

/// Matches that a report keeps.
pub(crate) const MATCHES_MAX: usize = 500;

/// Variables of one match that a report keeps.
pub(crate) const MATCHED_VARIABLES_MAX: usize = 16;

/// Bytes of a value that a report keeps.
pub const VALUE_BYTES_MAX: usize = 512;

/// Bytes of a body that the audit log has.
pub(crate) const AUDIT_BODY_BYTES_MAX: usize = 64 << 10;

/// Work of an exchange: about a nanosecond for each unit. Prefilter, transformations and operators count it
/// by what they read and by the states that they make, so that the same request has nearly the same count on
/// any machine. docs/performance.md has the time that requests take which use all of it up.
pub(crate) const WORK_BASE: u64 = 15 << 20;

/// Work that an exchange may take for each byte of names and values that rules look at, where that is more:
/// settings may allow bodies of many megabytes. JSON needs 7 at paranoia level 1 and 17 at level 4.
pub(crate) const WORK_PER_BYTE: u64 = 64;

/// Work that no exchange may take: a search that would take too long counts as this much.
pub(crate) const WORK_MAX: usize = 1 << 40;

/// Bytes of all texts of a transaction, with what transformations make of them.
pub(crate) const TEXT_BYTES_MAX: usize = 512 << 20;

/// Bytes of the request's body that are kept for `REQUEST_BODY`.
pub(crate) const KEPT_BODY_BYTES_MAX: usize = 128 << 20;

/// Entries of all persistent collections.
pub(crate) const COLLECTION_ENTRIES_MAX: usize = 100_000;

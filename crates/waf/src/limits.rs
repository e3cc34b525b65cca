//! The bounds of the firewall.
//!
//! Never in here: settings of rules.

/// Bytes that one compiled expression may take.
pub(crate) const EXPRESSION_BYTES_MAX: usize = 8 << 20;

/// Bytes of the states that one expression keeps while it searches; beyond, states are made again.
pub(crate) const EXPRESSION_CACHE_BYTES_MAX: usize = 256 << 10;

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

/// Matches that a report keeps.
pub(crate) const MATCHES_MAX: usize = 500;

/// Variables of one match that a report keeps.
pub(crate) const MATCHED_VARIABLES_MAX: usize = 16;

/// Bytes of a value that a report keeps.
pub const VALUE_BYTES_MAX: usize = 512;

/// Bytes that prefilter, transformations and operators may read for an exchange without a body. A quarter of
/// it refused one of the core rules' own tests, a long text about SQL, while expressions had no states yet.
pub(crate) const WORK_BYTES_BASE: u64 = 16 << 20;

/// Bytes that they may read more for each byte of the request's body. JSON needs 7 at paranoia level 1 and
/// 17 at level 4.
pub(crate) const WORK_PER_REQUEST_BYTE: u64 = 64;

/// Bytes that they may read more for each byte of the response's body.
pub(crate) const WORK_PER_RESPONSE_BYTE: u64 = 8;

/// Bytes of all texts of a transaction, with what transformations make of them.
pub(crate) const TEXT_BYTES_MAX: usize = 512 << 20;

/// Bytes of the request's body that are kept for `REQUEST_BODY`.
pub(crate) const KEPT_BODY_BYTES_MAX: usize = 128 << 20;

/// Entries of all persistent collections.
pub(crate) const COLLECTION_ENTRIES_MAX: usize = 100_000;

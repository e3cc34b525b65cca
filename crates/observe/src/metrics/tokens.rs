//! The metrics of JSON Web Tokens.

use std::sync::atomic::Ordering;

use super::encode::{Page, labels};
use super::names;
use super::{Counter, Registry};

/// The results of tokens.
const RESULTS: &[Counter] = &[
    Counter::TokenVerified,
    Counter::TokenRepeated,
    Counter::TokenAbsent,
    Counter::TokenMalformed,
    Counter::TokenTooLong,
    Counter::TokenAlgorithm,
    Counter::TokenIssuer,
    Counter::TokenAudience,
    Counter::TokenExpired,
    Counter::TokenEarly,
    Counter::TokenClaims,
    Counter::TokenKey,
    Counter::TokenSignature,
    Counter::TokenNoKeys,
    Counter::TokenExhausted,
];

impl Registry {
    /// Sets the numbers of fetches of issuers' keys so far: those that gave keys, and those that failed.
    pub fn set_key_fetches(&self, fetches: [u64; 2]) {
        for (cell, count) in self.key_fetches.iter().zip(fetches) {
            cell.store(count, Ordering::Relaxed);
        }
    }

    /// Writes the metrics of tokens.
    pub(super) fn encode_tokens(&self, page: &mut Page<'_>, count: impl Fn(Counter) -> u64) {
        page.family(&names::TOKENS);
        for &counter in RESULTS {
            page.sample(names::TOKENS.name, &labels(&[("result", counter.name())]), count(counter));
        }
        page.family(&names::TOKEN_KEY_FETCHES);
        for (result, fetches) in ["fetched", "failed"].into_iter().zip(&self.key_fetches) {
            let labels = labels(&[("result", result)]);
            page.sample(names::TOKEN_KEY_FETCHES.name, &labels, fetches.load(Ordering::Relaxed));
        }
    }
}

//! The metrics of sign-ins by `OpenID Connect`.

use super::encode::{Page, labels};
use super::names;
use super::{Registry, lock};

/// Most providers that have series of their own.
const PROVIDERS_MAX: usize = 100;

/// The state of a provider, and the results of the sessions that are its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignIns {
    /// The issuer, as the label `issuer` has it.
    pub issuer: String,
    /// Whether the provider has done as asked when it was asked last.
    pub is_up: bool,
    /// Numbers of sessions by result.
    pub results: [(&'static str, u64); 6],
}

impl Registry {
    /// Sets the numbers of certificates that are obtained, by state.
    pub fn set_obtained_certificates(&self, by_state: impl IntoIterator<Item = (&'static str, usize)>) {
        *lock(&self.acme) = by_state.into_iter().collect();
    }

    /// Sets what has happened so far with the sessions of each provider. Those of the same issuer are added.
    pub fn set_sign_ins(&self, all: impl IntoIterator<Item = SignIns>) {
        let mut by_issuer: Vec<SignIns> = Vec::new();
        for one in all {
            match by_issuer.iter_mut().find(|known| known.issuer == one.issuer) {
                Some(known) => {
                    known.is_up &= one.is_up;
                    for ((_, sum), (_, count)) in known.results.iter_mut().zip(one.results) {
                        *sum += count;
                    }
                }
                None => by_issuer.push(one),
            }
        }
        by_issuer.sort_by(|one, other| one.issuer.cmp(&other.issuer));
        by_issuer.truncate(PROVIDERS_MAX);
        *lock(&self.sign_ins) = by_issuer;
    }

    /// Writes the metrics of sign-ins.
    pub(super) fn encode_sign_ins(&self, page: &mut Page<'_>) {
        let all = lock(&self.sign_ins);
        page.family(&names::SIGN_INS);
        for one in all.iter() {
            for (result, count) in one.results {
                let labels = labels(&[("issuer", &one.issuer), ("result", result)]);
                page.sample(names::SIGN_INS.name, &labels, count);
            }
        }
        page.family(&names::PROVIDER_UP);
        for one in all.iter() {
            let labels = labels(&[("issuer", &one.issuer)]);
            page.sample(names::PROVIDER_UP.name, &labels, u64::from(one.is_up));
        }
    }
}

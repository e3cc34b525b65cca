//! A report about the certificates that are obtained, for people.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::book::{Book, host_of};
use super::schedule::{Due, Work, needed_at};
use super::state::{Wanted, now};

/// Most certificates that are listed.
const LISTED_MAX: usize = 1000;

/// The certificates of this process.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The authorities, the preferred one first.
    pub directories: Vec<String>,
    /// Numbers of all certificates that the configuration wants: missing, failing, ordered, valid.
    pub counts: [usize; 4],
    /// The certificates, those that need attention first.
    pub certificates: Vec<CertificateReport>,
}

/// The certificate of a host.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateReport {
    /// Name of the host.
    pub host: String,
    /// The state of the certificate.
    pub state: CertificateState,
    /// Host of the authority that has issued it; none without a certificate.
    pub issued_by: Option<String>,
    /// Last second of its validity, since 1970.
    pub not_after: Option<i64>,
    /// The second since 1970 from which it is renewed, or obtained.
    pub renewed_at: Option<i64>,
    /// Why the last order failed.
    pub fault: Option<String>,
}

/// The state of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CertificateState {
    /// There is no valid certificate, and the last order has failed.
    Missing,
    /// There is a certificate, but the last order for another one has failed.
    Failing,
    /// An order is in progress, or will be placed as soon as limits allow.
    Ordered,
    /// There is a certificate, and nothing to do.
    Valid,
}

impl CertificateState {
    /// All states, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Missing, Self::Failing, Self::Ordered, Self::Valid];

    /// The name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Failing => "failing",
            Self::Ordered => "ordered",
            Self::Valid => "valid",
        }
    }
}

impl Report {
    pub(super) fn of(
        wanted: &Wanted,
        book: &Book,
        due: &[(String, Due)],
        busy: &BTreeMap<String, Work>,
    ) -> Self {
        let Some(settings) = &wanted.settings else { return Self::default() };
        let now = now();
        let mut certificates: Vec<_> = due
            .iter()
            .map(|(host, due)| {
                let entry = book.entry(host);
                let pair = book.pair(host);
                let is_valid = pair.is_some_and(|pair| pair.not_after() >= now);
                let is_failing = !entry.state.failures.is_empty();
                let state = match (is_valid, is_failing) {
                    (false, true) => CertificateState::Missing,
                    (true, true) => CertificateState::Failing,
                    (false, false) => CertificateState::Ordered,
                    // An order is in progress until its certificate is stored, which outlives the process.
                    (true, false) if matches!(busy.get(host), Some(Work::Order(_))) => {
                        CertificateState::Ordered
                    }
                    (true, false) => CertificateState::Valid,
                };
                let needed = needed_at(&entry, pair.map(|pair| &**pair), settings);
                let at = if matches!(due.work, Work::Order(_)) { due.at } else { needed };
                CertificateReport {
                    host: host.clone(),
                    state,
                    issued_by: entry.state.issued_by.as_deref().map(|url| host_of(url).to_owned()),
                    not_after: pair.map(|pair| pair.not_after()),
                    renewed_at: Some(at.max(now)),
                    fault: fault(&entry),
                }
            })
            .collect();
        certificates.sort_by(|one, other| {
            (one.state, one.renewed_at, &one.host).cmp(&(other.state, other.renewed_at, &other.host))
        });
        let count = |state| certificates.iter().filter(|one| one.state == state).count();
        let counts = CertificateState::ALL.map(count);
        certificates.truncate(LISTED_MAX);
        let directories = settings.directories.iter().map(|directory| directory.url.clone()).collect();
        Self { directories, counts, certificates }
    }

    /// The numbers of all certificates by the name of their state.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, usize)> {
        CertificateState::ALL.iter().map(|state| state.as_str()).zip(self.counts)
    }
}

fn fault(entry: &super::entry::Entry) -> Option<String> {
    let last = entry.state.failures.values().max_by_key(|failure| failure.until);
    last.map(|failure| failure.why.clone())
}

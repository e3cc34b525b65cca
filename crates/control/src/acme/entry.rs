//! The stored form of accounts and certificates, so that a restart asks an authority for nothing twice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The files of one account or certificate, by name.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// The kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Account,
    Certificate,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Account, Self::Certificate];

    /// The name of the kind's folder.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Account => "accounts",
            Self::Certificate => "certificates",
        }
    }
}

/// Everything that is kept: the files of each entry.
pub(super) type Stored = BTreeMap<(Kind, String), Files>;

/// Name of the file with the chain of a certificate.
pub(super) const CHAIN: &str = "tls.crt";
/// Name of the file with its private key.
pub(super) const KEY: &str = "tls.key";
/// Name of the file with everything else.
pub(super) const STATE: &str = "state.json";

/// A certificate of a host, with the order in progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Entry {
    /// PEM of the certificates, the host's first.
    pub(super) chain: Option<Vec<u8>>,
    /// PEM of the key.
    pub(super) key: Option<Vec<u8>>,
    pub(super) state: EntryState,
}

/// The state of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EntryState {
    /// URL of the directory that has issued the certificate.
    pub(super) issued_by: Option<String>,
    pub(super) order: Option<Order>,
    pub(super) challenge: Option<Challenge>,
    /// Failures since the last certificate was issued, by URL of the directory.
    pub(super) failures: BTreeMap<String, Failure>,
    pub(super) renewal: Option<Renewal>,
}

/// An order in progress.
#[derive(Clone, PartialEq, Deserialize, Serialize)]
pub(super) struct Order {
    /// URL of the directory.
    pub(super) directory: String,
    /// URL of the order.
    pub(super) url: String,
    /// PEM of the key that the certificate will be for.
    pub(super) key: String,
    /// The second since 1970 in which it was placed.
    pub(super) placed: i64,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Order").field("url", &self.url).field("placed", &self.placed).finish_non_exhaustive()
    }
}

/// The challenge that is answered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Challenge {
    /// The kind, by its name in ACME.
    pub(super) kind: String,
    pub(super) token: String,
    /// The key authorization (RFC 8555 section 8.1).
    pub(super) authorization: String,
}

/// Failures at one authority, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Failure {
    pub(super) count: u32,
    /// The second since 1970 until which the authority is not asked again.
    pub(super) until: i64,
    pub(super) why: String,
}

/// When a certificate is renewed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Renewal {
    /// The second since 1970; none to go by the certificate's validity.
    pub(super) at: Option<i64>,
    /// The second since 1970 from which the authority is asked again.
    pub(super) ask_at: i64,
    /// URL of a page on which the authority explains an early renewal.
    pub(super) explanation: Option<String>,
}

/// An account at an authority.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AccountEntry {
    /// URL of the directory.
    pub(super) directory: String,
    /// Account and key, in the form of the ACME library; null before there is an account.
    pub(super) credentials: serde_json::Value,
    pub(super) email: Option<String>,
    /// Name of the key that the account is bound to.
    pub(super) binding: Option<String>,
    /// The seconds since 1970 in which orders were placed within the last hour.
    pub(super) orders: Vec<i64>,
    /// The second since 1970 until which the authority wants to be left alone.
    pub(super) until: i64,
}

impl Entry {
    /// Reads stored files. A state that cannot be read costs an order, not the certificate.
    pub(super) fn read(name: &str, files: &Files) -> Self {
        let state = files.get(STATE).map(|text| serde_json::from_slice(text));
        let state = state.unwrap_or_else(|| Ok(EntryState::default())).unwrap_or_else(|error| {
            tracing::error!(certificate = name, %error, "the stored state of a certificate cannot be read");
            EntryState::default()
        });
        let file = |name: &str| files.get(name).filter(|content| !content.is_empty()).cloned();
        Self { chain: file(CHAIN), key: file(KEY), state }
    }

    /// The files to store.
    pub(super) fn files(&self) -> Files {
        let mut files = Files::new();
        // The order of names is that of writing: a key is there before its certificate, and until both are
        // there the state has the order that the certificate can be fetched from again.
        files.extend(self.key.clone().map(|key| (KEY.to_owned(), key)));
        files.extend(self.chain.clone().map(|chain| (CHAIN.to_owned(), chain)));
        files.insert(STATE.to_owned(), json(&self.state));
        files
    }
}

impl AccountEntry {
    /// Reads stored files; none if they cannot be read.
    pub(super) fn read(name: &str, files: &Files) -> Option<Self> {
        let read = serde_json::from_slice(files.get(STATE)?);
        read.inspect_err(|error| tracing::error!(account = name, %error, "a stored account cannot be read"))
            .ok()
    }

    pub(super) fn files(&self) -> Files {
        Files::from([(STATE.to_owned(), json(self))])
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    text
}

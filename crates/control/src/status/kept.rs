//! States that outlive a process and are the same for all replicas: a text in an annotation of the Lease.
//!
//! The leader writes it with its renewals. Another replica writes it only where it knows something that
//! cannot wait for the leader to find it too.
//!
//! Never in here: the meaning of the text.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;

/// Name of the annotation.
const ANNOTATION: &str = "forebay.io/canaries";

/// Longest text: the API server takes 256 KiB for all annotations of an object.
const BYTES_MAX: usize = 200 << 10;

/// States that are kept in the Lease.
pub trait KeptState: Debug + Send + Sync {
    /// Takes over the text of the Lease; none where the Lease has none.
    fn merge(&self, kept: Option<&str>);

    /// The text that the leader keeps; none where there is nothing to keep.
    fn to_keep(&self) -> Option<String>;

    /// The text with what this replica has to add to that of the Lease; none where it has nothing to add.
    fn to_add(&self, kept: Option<&str>) -> Option<String>;

    /// A number that grows when there is something else to keep.
    fn version(&self) -> u64;
}

/// The states that an elector keeps.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept(pub(super) Option<Arc<dyn KeptState>>);

impl Kept {
    /// Takes over what a Lease has.
    pub(super) fn merge(&self, lease: Option<&Lease>) {
        if let Some(state) = &self.0 {
            state.merge(lease.and_then(text_of));
        }
    }

    /// Puts the leader's text into a Lease that is about to be written.
    pub(super) fn put(&self, lease: &mut Lease) {
        if let Some(state) = &self.0 {
            put(lease, state.to_keep());
        }
    }

    /// The Lease with what this replica has to add; none where it has nothing to add.
    pub(super) fn added(&self, lease: &Lease) -> Option<Lease> {
        let text = self.0.as_ref()?.to_add(text_of(lease))?;
        let mut lease = lease.clone();
        put(&mut lease, Some(text));
        Some(lease)
    }

    /// A number that grows when there is something else to keep.
    pub(super) fn version(&self) -> u64 {
        self.0.as_ref().map_or(0, |state| state.version())
    }
}

fn text_of(lease: &Lease) -> Option<&str> {
    lease.metadata.annotations.as_ref()?.get(ANNOTATION).map(String::as_str)
}

fn put(lease: &mut Lease, text: Option<String>) {
    let annotations = lease.metadata.annotations.get_or_insert_default();
    match text.filter(|text| text.len() <= BYTES_MAX) {
        Some(text) => drop(annotations.insert(ANNOTATION.to_owned(), text)),
        None => drop(annotations.remove(ANNOTATION)),
    }
}

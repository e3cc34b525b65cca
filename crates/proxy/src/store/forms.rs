//! Compressed forms of contents in memory (cached responses and small files): each is compressed once, for
//! the first request that needs it.
//!
//! A changed content has another `ContentId`, and its forms are made anew; the old ones are evicted in time.
//!
//! Never in here: which form a client gets, which is `recode`'s.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use quick_cache::sync::{Cache as Map, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use wire::coding::Coding;

use crate::limits::FORM_CONTENT_BYTES_MAX;

/// Identity of a content; a changed content has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ContentId(u64);

/// A form of a content: its coding, and its compression level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FormKey {
    pub(crate) content: ContentId,
    pub(crate) coding: Coding,
    pub(crate) level: u8,
}

/// The forms, shared by all workers.
pub(crate) struct Forms {
    map: Map<FormKey, Bytes, Weight, DefaultHashBuilder>,
    content_bytes_max: u64,
}

#[derive(Clone)]
struct Weight;

/// Overhead of the table for each form, in bytes.
const ENTRY_BYTES: u64 = 160;
/// Each shard of the table, with a lock of its own, has at least this many bytes.
const SHARD_BYTES_MIN: u64 = 8 << 20;
const SHARDS_MAX: u64 = 64;
/// Assumed length of a form, for the initial size of the table.
const USUAL_BYTES: u64 = 16 << 10;

impl Weighter<FormKey, Bytes> for Weight {
    fn weight(&self, _: &FormKey, form: &Bytes) -> u64 {
        form.len() as u64 + ENTRY_BYTES
    }
}

impl ContentId {
    /// A new identity, different from all before.
    pub(crate) fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

impl Forms {
    /// An empty table with this capacity in bytes.
    pub(crate) fn new(bytes: u64) -> Arc<Self> {
        let options = OptionsBuilder::new()
            .shards((bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX) as usize)
            .estimated_items_capacity((bytes / USUAL_BYTES) as usize)
            .weight_capacity(bytes)
            .build()
            .expect("all that has to be said is said");
        let map =
            Map::with_options(options, Weight, DefaultHashBuilder::default(), DefaultLifecycle::default());
        // A form that takes much of the capacity would evict all others.
        let content_bytes_max = FORM_CONTENT_BYTES_MAX.min(bytes / 4);
        Arc::new(Self { map, content_bytes_max })
    }

    /// Whether forms of a content of this length are stored.
    pub(crate) fn are_for(&self, len: u64) -> bool {
        len <= self.content_bytes_max
    }

    /// A stored form, if there is one.
    pub(crate) fn get(&self, key: FormKey) -> Option<Bytes> {
        self.map.get(&key)
    }

    /// A stored form, or the one that `make` returns. Concurrent calls for the same key wait for the first;
    /// if that fails, one of them runs its own `make`. None where the form cannot be made now.
    pub(crate) async fn get_or_make(
        &self,
        key: FormKey,
        make: impl Future<Output = Option<Vec<u8>>>,
    ) -> Option<Bytes> {
        let made = async { make.await.map(|form| Bytes::from(form.into_boxed_slice())).ok_or(()) };
        self.map.get_or_insert_async(&key, made).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn key(content: ContentId) -> FormKey {
        FormKey { content, coding: Coding::Gzip, level: 1 }
    }

    fn poll<F: Future + Unpin>(mut future: F) -> Poll<F::Output> {
        std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_form_is_made_once_and_others_wait_for_it() {
        let (forms, content) = (Forms::new(1 << 20), ContentId::next());
        {
            let mut first = pin!(forms.get_or_make(key(content), std::future::pending()));
            let mut second = pin!(forms.get_or_make(key(content), ready(Some(b"second".to_vec()))));
            assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
        }
        // Both futures were dropped before the form was made.
        let never = async { panic!("it is there") };
        let made = pin!(forms.get_or_make(key(content), ready(Some(b"third".to_vec()))));
        assert_eq!(poll(made), Poll::Ready(Some(Bytes::from_static(b"third"))));
        assert_eq!(poll(pin!(forms.get_or_make(key(content), never))), Poll::Ready(Some("third".into())));
        assert!(forms.get(key(ContentId::next())).is_none(), "another content");
        assert!(forms.get(FormKey { level: 2, ..key(content) }).is_none(), "another level");
    }

    #[test]
    fn who_waits_takes_the_place_of_who_goes() {
        let (forms, content) = (Forms::new(1 << 20), ContentId::next());
        let mut first = Box::pin(forms.get_or_make(key(content), std::future::pending()));
        let mut second = Box::pin(forms.get_or_make(key(content), ready(Some(b"second".to_vec()))));
        assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
        drop(first);
        assert_eq!(poll(&mut second), Poll::Ready(Some("second".into())));
    }

    #[test]
    fn what_cannot_be_made_is_made_later() {
        let (forms, content) = (Forms::new(1 << 20), ContentId::next());
        assert_eq!(poll(pin!(forms.get_or_make(key(content), ready(None)))), Poll::Ready(None));
        let later = pin!(forms.get_or_make(key(content), ready(Some(b"a".to_vec()))));
        assert_eq!(poll(later), Poll::Ready(Some("a".into())));
    }

    #[test]
    fn forms_have_a_bound() {
        let forms = Forms::new(1 << 20);
        assert!(forms.are_for(256 << 10) && !forms.are_for((256 << 10) + 1));
        for _ in 0..100 {
            let made = ready(Some(vec![0; 100_000]));
            assert!(poll(pin!(forms.get_or_make(key(ContentId::next()), made))).is_ready());
        }
        assert!(forms.map.weight() <= 1 << 20 && forms.map.len() > 5);
    }
}

//! The second tier, on disk: all responses of a key are one record, and are loaded into memory together when
//! one of them is requested.
//!
//! Never in here: files, which are `cache_disk`'s; a decision about what is stored.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use cache_disk::{Disk, Figures, Record, StoredRecord};
use smallvec::SmallVec;
use wire::cache::{Freshness, Head, Validators, Vary};

use super::labels::Labels;
use super::object::{Body, Object};
use super::purges::Matchers;
use crate::limits::{CACHE_PURGE_WAIT_MAX, CACHE_VARIANTS_MAX};
use crate::store::forms::ContentId;

/// The responses of a key, the latest last.
pub(super) type Objects = SmallVec<[Arc<Object>; 1]>;

/// Version of the format of a record's meta; records of another version are ignored.
const FORM: u8 = 3;

/// The disk, where there is one.
#[derive(Default)]
pub(super) struct Tier(Option<Arc<Disk>>);

impl Tier {
    pub(super) fn new(disk: Option<Arc<Disk>>) -> Self {
        Self(disk)
    }

    pub(super) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn figures(&self) -> Option<Figures> {
        self.0.as_ref().map(|disk| disk.figures())
    }

    /// The record with the responses of a key. None without a disk.
    pub(super) fn encode(&self, objects: &Objects) -> Option<Record> {
        self.0.as_ref().and_then(|_| encode(objects))
    }

    /// Stores the responses of a key; the record is written later.
    pub(super) fn put(&self, key: &[u8], record: Option<Record>) {
        if let Some(disk) = &self.0
            && let Some(record) = record
        {
            disk.insert(Bytes::copy_from_slice(key), record);
        }
    }

    pub(super) fn remove(&self, key: &[u8]) {
        if let Some(disk) = &self.0 {
            disk.remove(key);
        }
    }

    pub(super) fn purge(&self, matchers: &Matchers) {
        if let Some(disk) = &self.0 {
            matchers.iter().for_each(|matcher| disk.purge(matcher.clone()));
        }
    }

    /// Waits until all queued writes are on disk, so that a purge survives a restart.
    pub(super) fn flush(&self) {
        if let Some(disk) = &self.0 {
            disk.flush(CACHE_PURGE_WAIT_MAX);
        }
    }

    /// Reads the responses of a key.
    pub(super) async fn get(&self, key: &[u8]) -> Option<Objects> {
        decode(&self.0.as_ref()?.get(key).await?)
    }
}

/// None while one of the responses still arrives: the record on disk stays as it was.
fn encode(objects: &Objects) -> Option<Record> {
    let mut meta = vec![FORM];
    let mut body = Vec::new();
    for object in objects {
        let Body::Here { pieces, len } = &object.body else { return None };
        meta.put_slice(&object.freshness.to_bytes());
        meta.put_u64_le(*len);
        let names = object.vary.names().collect::<Vec<_>>().join(&b',');
        for part in [object.labels.bytes(), &names, &object.vary_key, &object.head] {
            meta.put_u32_le(part.len() as u32);
            meta.put_slice(part);
        }
        body.extend(pieces.iter().cloned());
    }
    let mut labels: Vec<Vec<u8>> =
        objects.iter().flat_map(|object| object.labels.iter()).map(<[u8]>::to_vec).collect();
    labels.sort_unstable();
    labels.dedup();
    Some(Record { labels, meta: meta.into(), body })
}

/// None for a record that this version does not write.
fn decode(found: &StoredRecord) -> Option<Objects> {
    let (form, mut meta) = found.meta.split_first()?;
    let mut body = found.body.clone();
    let mut objects = Objects::new();
    while *form == FORM && !meta.is_empty() && objects.len() < CACHE_VARIANTS_MAX {
        let (freshness, rest) = meta.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let (labels, rest) = split_part(rest)?;
        let (names, rest) = split_part(rest)?;
        let (vary_key, rest) = split_part(rest)?;
        let (head, rest) = split_part(rest)?;
        meta = rest;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok().filter(|len| *len <= body.len())?;
        let (freshness, labels) = (Freshness::from_bytes(freshness), Labels::from_bytes(labels)?);
        let said = RecordParts { names, vary_key, head };
        objects.push(Arc::new(object(freshness, labels, said, &body.split_to(len))?));
    }
    (!objects.is_empty()).then_some(objects)
}

fn split_part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}

/// The variable parts of a response's record.
#[derive(Clone, Copy)]
struct RecordParts<'a> {
    /// Names of the headers that tell requests apart, separated by commas.
    names: &'a [u8],
    vary_key: &'a [u8],
    head: &'a [u8],
}

fn object(freshness: Freshness, labels: Labels, said: RecordParts<'_>, body: &Bytes) -> Option<Object> {
    let RecordParts { names, vary_key, head } = said;
    let response = Object::parse(head)?;
    let said = Head::of_response(head, &response);
    let validators = Validators::of(said, freshness.response_time);
    let names = names.split(|&byte| byte == b',').filter(|name| !name.is_empty());
    let vary = Vary::of(said)?.with_implied(names);
    let len = body.len() as u64;
    // Copied: a slice would keep the memory of the whole record.
    let pieces = if body.is_empty() { Arc::default() } else { Arc::from([Bytes::copy_from_slice(body)]) };
    Some(Object {
        head: head.into(),
        response,
        freshness,
        validators,
        vary,
        vary_key: vary_key.into(),
        labels,
        body: Body::Here { pieces, len },
        content: ContentId::next(),
    })
}

#[cfg(test)]
mod tests {
    use wire::cache::{Directives, Policy, Times};

    use super::*;

    fn sample(language: &str, body: &'static str) -> Arc<Object> {
        let head = format!(
            "HTTP/1.1 200 OK\r\nVary: Accept-Language\r\nETag: \"{language}\"\r\nCache-Control: max-age=9\r\n\r\n"
        );
        let response = Object::parse(head.as_bytes()).unwrap();
        let said = Head::of_response(head.as_bytes(), &response);
        let times = Times { response: 6, delay: 1 };
        let freshness = Freshness::of(200, said, &Directives::of(said, &[]), times, &Policy::default());
        let labels = Labels::of_url(b"a.test", language.as_bytes(), true).unwrap();
        let said = RecordParts {
            names: b"accept-language,x-app",
            vary_key: language.as_bytes(),
            head: head.as_bytes(),
        };
        let object = object(freshness, labels, said, &Bytes::from_static(body.as_bytes()));
        Arc::new(object.unwrap())
    }

    fn text(object: &Object) -> Vec<u8> {
        let Body::Here { pieces, .. } = &object.body else { unreachable!() };
        pieces.concat()
    }

    #[test]
    fn what_is_written_is_read() {
        let objects: Objects =
            [sample("de", "eins"), sample("en", ""), sample("fr", "trois")].into_iter().collect();
        let Record { meta, body, labels } = encode(&objects).unwrap();
        assert_eq!(labels.len(), 3);
        let found = StoredRecord { meta, body: body.concat().into() };
        let read = decode(&found).unwrap();
        assert_eq!(read.len(), 3);
        for (read, written) in read.iter().zip(&objects) {
            assert_eq!((&read.head, &read.response), (&written.head, &written.response));
            assert_eq!(read.freshness, written.freshness);
            assert_eq!((&read.validators, &read.labels), (&written.validators, &written.labels));
            assert_eq!((&read.vary, &read.vary_key), (&written.vary, &written.vary_key));
            assert_eq!(text(read), text(written));
        }
        for len in 0..found.meta.len() {
            // A meta that is cut off between two responses yields the first ones.
            let cut = StoredRecord { meta: found.meta.slice(..len), body: found.body.clone() };
            assert!(decode(&cut).is_none_or(|read| read.len() < 3));
        }
        assert!(decode(&StoredRecord { meta: Bytes::from_static(&[9]), body: Bytes::new() }).is_none());
    }
}

//! Threads that read records for callers.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::StoredRecord;
use crate::index::RecordLocation;
use crate::record::{Kind, View};
use crate::segment::read_record;
use crate::shared::Shared;

/// A record to read.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) key: Bytes,
    pub(crate) hash: u64,
    pub(crate) place: RecordLocation,
    pub(crate) file: Arc<File>,
    pub(crate) reply: oneshot::Sender<Option<StoredRecord>>,
}

pub(crate) fn start(shared: Arc<Shared>, jobs: Arc<Mutex<Receiver<Job>>>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("cache-read".into()).spawn(move || {
        loop {
            let job = jobs.lock().recv();
            let Ok(job) = job else { return };
            // A caller that went away needs no answer.
            if !job.reply.is_closed() {
                let found = read(&shared, &job);
                let _ = job.reply.send(found);
            }
        }
    })
}

fn read(shared: &Shared, job: &Job) -> Option<StoredRecord> {
    let bytes = read_record(&job.file, job.place.offset, job.place.len).unwrap_or_default();
    let Some(view) = View::decode(&bytes, job.place.segment).filter(|view| view.header.kind == Kind::Put)
    else {
        shared.counters.corrupt.fetch_add(1, Ordering::Relaxed);
        shared.index.lock().forget(job.hash, job.place);
        return None;
    };
    if view.key != job.key || view.header.hash != job.hash {
        return None;
    }
    // While it was read, it may have been replaced, removed or purged.
    if !shared.index.lock().confirms(&view, job.place) {
        return None;
    }
    shared.counters.hits.fetch_add(1, Ordering::Relaxed);
    let meta_at = bytes.len() - view.body.len() - view.meta.len();
    let body_at = bytes.len() - view.body.len();
    let bytes = Bytes::from(bytes);
    Some(StoredRecord { meta: bytes.slice(meta_at..body_at), body: bytes.slice(body_at..) })
}

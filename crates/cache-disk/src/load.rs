//! Loads the index from the segments after a start, the newest first: for each key, the newest record counts.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use crate::limits::LOADED_TOGETHER_MAX;
use crate::purge::Purge;
use crate::record::{Kind, View};
use crate::segment::{Content, Entry, read_content, read_record};
use crate::shared::Shared;

pub(crate) fn start(shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let ids = shared.index.lock().segment_ids();
    std::thread::Builder::new().name("cache-load".into()).spawn(move || {
        for id in ids.into_iter().rev() {
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
            load(&shared, id);
        }
        shared.index.lock().end_loading();
    })
}

fn load(shared: &Shared, id: u64) {
    let Some(file) = shared.index.lock().segment(id) else { return };
    let unread = Content { entries: Vec::new(), is_damaged: true };
    let Content { entries, is_damaged } = read_content(&file, id).unwrap_or(unread);
    let purges: Vec<_> = entries.iter().filter(|entry| entry.kind == Kind::Purge).collect();
    let known = purges.iter().map(|entry| read_purge(&file, id, entry));
    // An unreadable removal may apply to any record here and in older segments, whose sequences are all below
    // this one.
    let unknown = is_damaged.then_some(None);
    let all = ((id + 1) << 32, Purge::All);
    let purges = known.chain(unknown).map(|purge| purge.unwrap_or_else(|| all.clone())).collect();
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    {
        let mut index = shared.index.lock();
        // The purges come before the records that they apply to can be found.
        index.load_purges(id, purges);
        index.set_segment_bytes(id, bytes);
    }
    for entries in entries.rchunks(LOADED_TOGETHER_MAX) {
        shared.index.lock().load(id, entries);
    }
}

fn read_purge(file: &File, id: u64, entry: &Entry) -> Option<(u64, Purge)> {
    let bytes = read_record(file, entry.offset, entry.len).ok()?;
    let view = View::decode(&bytes, id)?;
    Some((view.header.sequence, Purge::decode(view.meta)?))
}

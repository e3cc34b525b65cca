//! Reads the body of a response into the cache and to the clients that read along.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;

use super::plan::{Keeping, with_field};
use crate::body::{BodyEvent, End, Incoming, RelayError, SharedBody, Source};
use crate::io::deadline::Deadline;
use crate::limits::CACHE_PIECE_BYTES;
use crate::store::{Asking, Body, Cache, Object};

/// Pieces after which readers are polled.
const PIECES_PER_TURN: usize = 16;
/// Overhead of a piece beside its bytes.
const PIECE_BYTES: u64 = 64;

/// Tells readers on drop that no more pieces follow, however the body ends.
struct Ending(Arc<SharedBody>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end(End::BrokenOff);
    }
}

/// Reads a body to its end. A complete body of acceptable length is stored.
pub(super) async fn fill(
    mut incoming: Incoming<'_>,
    keeping: Keeping,
    (cache, request, now): (&Cache, Asking<'_>, u64),
    deadline: &Deadline,
) -> Result<(), RelayError> {
    let (body, ending) = (Arc::clone(&keeping.body), Ending(Arc::clone(&keeping.body)));
    let (mut kept, mut len, mut count) = (Some(keeping), 0_u64, 0);
    loop {
        poll_fn(|cx| body.poll_room(cx)).await;
        if kept.is_none() && !body.has_readers() {
            return Ok(());
        }
        match incoming.next(None, deadline).await? {
            BodyEvent::Content { skip, len: 0 } => incoming.source.consume(skip),
            BodyEvent::Content { skip, len: more } => {
                len += more as u64;
                if let Some(keeping) = &mut kept
                    && (len > keeping.len_max || !keeping.room.take(more as u64 + PIECE_BYTES))
                {
                    cache.note_pass(&keeping.key, now);
                    body.abandon();
                    kept = None;
                }
                let piece = match &incoming.source {
                    Source::Stream(frames) => frames.frame().clone(),
                    _ => Bytes::copy_from_slice(incoming.content(skip, more)),
                };
                let is_last = incoming.is_last();
                incoming.source.consume(skip + more);
                body.push(piece);
                if is_last {
                    break;
                }
            }
            BodyEvent::End { skip, .. } => {
                incoming.source.consume(skip);
                break;
            }
            BodyEvent::Large { .. } => {
                unreachable!("only what goes to a socket passes without being looked at")
            }
        }
        count += 1;
        if count % PIECES_PER_TURN == 0 {
            let_others().await;
        }
    }
    if let Some(keeping) = kept
        && let Some(object) = whole(&keeping, len)
    {
        cache.store().put(&keeping.key, &Arc::new(object), request, keeping.since);
    }
    ending.0.end(End::Whole);
    Ok(())
}

/// Yields once, so that futures polled beside this one make progress.
async fn let_others() {
    let mut has_waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The object to store for a complete response.
fn whole(keeping: &Keeping, len: u64) -> Option<Object> {
    let coming = &*keeping.object;
    let mut head = coming.head.to_vec();
    let has_content = !matches!(coming.response.status, 204 | 304);
    if has_content && coming.response.fields.content_length.is_none() {
        with_field(&mut head, "Content-Length", itoa::Buffer::new().format(len));
    }
    let response = Object::parse(&head)?;
    Some(Object {
        head: head.into(),
        response,
        freshness: coming.freshness,
        validators: coming.validators.clone(),
        vary: coming.vary.clone(),
        vary_key: coming.vary_key.clone(),
        labels: coming.labels.clone(),
        body: Body::Here { pieces: joined(&keeping.body.pieces()), len },
        content: coming.content,
    })
}

/// Joins small pieces: each has an overhead beside its bytes.
fn joined(pieces: &[Bytes]) -> Arc<[Bytes]> {
    let mut joined: Vec<Bytes> = Vec::new();
    let mut group: Vec<&[u8]> = Vec::new();
    let mut len = 0;
    let mut close = |group: &mut Vec<&[u8]>| match group.as_slice() {
        [] => {}
        several => joined.push(Bytes::from(several.concat())),
    };
    for piece in pieces {
        if len + piece.len() > CACHE_PIECE_BYTES {
            close(&mut group);
            group.clear();
            len = 0;
        }
        len += piece.len();
        group.push(piece);
    }
    close(&mut group);
    joined.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_put_together() {
        let piece = |len: usize| Bytes::from(vec![b'x'; len]);
        let lengths = |pieces: &[usize]| -> Vec<usize> {
            let pieces: Vec<_> = pieces.iter().map(|&len| piece(len)).collect();
            joined(&pieces).iter().map(Bytes::len).collect()
        };
        assert!(lengths(&[]).is_empty());
        assert_eq!(lengths(&[1, 2, 3]), [6]);
        assert_eq!(lengths(&[1, CACHE_PIECE_BYTES, 2]), [1, CACHE_PIECE_BYTES, 2]);
        assert_eq!(lengths(&[CACHE_PIECE_BYTES - 1, 1, 1]), [CACHE_PIECE_BYTES, 1]);
    }
}

//! The answer of a relay as a follower reads it: frames that are opened one after the other.
//!
//! Never in here: what happens after a failure.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use tokio::time::timeout;
use tower::BoxError;

use super::seal::{Forged, Opener};

/// A body as the client of the API server takes it.
pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The frames of an answer.
pub(super) struct Frames {
    body: Incoming,
    opener: Opener,
    received: BytesMut,
}

/// The reason why an answer ends before its regular end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("it is silent")]
    Silent,
    #[error("the connection has ended")]
    Ended,
    #[error("its answer is not sealed with the secret")]
    Forged,
}

impl From<Forged> for Broken {
    fn from(_: Forged) -> Self {
        Self::Forged
    }
}

impl Frames {
    pub(super) fn new(body: Incoming, opener: Opener) -> Self {
        Self { body, opener, received: BytesMut::new() }
    }

    /// The text of the next frame; none at the regular end.
    pub(super) async fn next(&mut self, silence: Duration) -> Result<Option<Bytes>, Broken> {
        loop {
            if let Some(text) = self.opener.open(&mut self.received)? {
                return Ok((!text.is_empty()).then_some(text));
            }
            let piece = timeout(silence, self.body.frame()).await.map_err(|_| Broken::Silent)?;
            let piece = piece.and_then(Result::ok).ok_or(Broken::Ended)?;
            if let Ok(bytes) = piece.into_data() {
                self.received.extend_from_slice(&bytes);
            }
        }
    }

    /// The whole answer, which counts only with its regular end.
    pub(super) async fn whole(mut self, silence: Duration) -> Result<Body, Broken> {
        let mut whole = BytesMut::new();
        while let Some(text) = self.next(silence).await? {
            whole.extend_from_slice(&text);
        }
        Ok(Full::new(whole.freeze()).map_err(BoxError::from).boxed_unsync())
    }

    /// The answer as it comes. It ends like a watch whose time is over, whatever happens; a failure is also
    /// reported.
    pub(super) fn events<F>(self, first: Bytes, silence: Duration, failed: F) -> Body
    where
        F: FnOnce(Broken) + Send + 'static,
    {
        let next = move |(first, mut frames, failed): (Option<Bytes>, Self, F)| async move {
            let text = match first {
                Some(first) => first,
                None => match frames.next(silence).await {
                    Ok(text) => text?,
                    Err(broken) => {
                        failed(broken);
                        return None;
                    }
                },
            };
            Some((Ok(Frame::data(text)), (None, frames, failed)))
        };
        StreamBody::new(stream::unfold((Some(first), self, failed), next)).boxed_unsync()
    }
}

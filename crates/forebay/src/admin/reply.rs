//! The body of an answer: one that is there as a whole, or events that go on.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};

use crate::console::EventStream;
use crate::server::ConnectionSlot;

/// The body of an answer.
pub(super) enum Reply {
    Whole(Full<Bytes>),
    Events(EventStream),
}

impl Reply {
    /// Has the connection not be taken for idle while events go on.
    pub(super) fn occupy(&mut self, place: &ConnectionSlot) {
        if let Self::Events(events) = self {
            events.occupy(place.busy());
        }
    }
}

impl From<Full<Bytes>> for Reply {
    fn from(body: Full<Bytes>) -> Self {
        Self::Whole(body)
    }
}

impl From<Bytes> for Reply {
    fn from(body: Bytes) -> Self {
        Self::Whole(body.into())
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Events(events) => Pin::new(events).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Events(events) => events.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Events(events) => events.size_hint(),
        }
    }
}

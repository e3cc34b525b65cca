//! The body of an answer: one that is there as a whole, events that go on, or a long one
//! in parts.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::time::{Sleep, sleep};

use crate::console::EventStream;
use crate::past::answer::Parts;
use crate::server::ConnectionSlot;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";

/// The body of an answer.
pub(super) enum Reply {
    Whole(Full<Bytes>),
    Events(EventStream),
    /// Events for somebody with a session, until it has to be examined again.
    EventsUntil(EventStream, Pin<Box<Sleep>>),
    /// The parts of a long answer, as they are made.
    Parts(Parts),
}

impl Reply {
    /// Has the connection not be taken for idle while events go on.
    pub(super) fn occupy(&mut self, place: &ConnectionSlot) {
        if let Self::Events(events) | Self::EventsUntil(events, _) = self {
            events.occupy(place.busy());
        }
    }

    /// Has events end after some time.
    pub(super) fn within(self, time: Duration) -> Self {
        match self {
            Self::Events(events) => Self::EventsUntil(events, Box::pin(sleep(time))),
            other => other,
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
            Self::EventsUntil(events, end) => match end.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => Pin::new(events).poll_frame(context),
            },
            Self::Parts(parts) => parts.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Events(events) | Self::EventsUntil(events, _) => events.is_end_stream(),
            Self::Parts(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Events(events) | Self::EventsUntil(events, _) => events.size_hint(),
            Self::Parts(_) => SizeHint::default(),
        }
    }
}

/// A whole answer.
pub(super) fn response(
    status: StatusCode,
    content_type: &'static str,
    body: String,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

//! The queue between the webhook's thread and the control thread: carries a review to the control thread,
//! which holds the objects, and returns the objects that can affect the answer.
//!
//! The control thread only selects these objects. The webhook's thread parses, translates and answers.

use tokio::sync::{mpsc, oneshot};

use crate::admission::{Request, ReviewContext};
use crate::index::Index;
use crate::options::Options;

/// The most reviews that wait for the control thread.
const REVIEWS_WAITING_MAX: usize = 64;

/// The sender of reviews, for the webhook's thread.
#[derive(Clone, Debug)]
pub struct Reviews(mpsc::Sender<Review>);

/// A review that waits for the objects that can affect its answer.
#[derive(Debug)]
pub struct Review {
    request: Request,
    answer: oneshot::Sender<(Request, ReviewContext)>,
}

/// Too many reviews wait, or the control plane has ended.
#[derive(Debug, thiserror::Error)]
#[error("too much to do at the moment")]
pub struct Busy;

impl Reviews {
    /// Creates a sender, and the receiver for the control thread.
    pub fn channel() -> (Self, mpsc::Receiver<Review>) {
        let (sender, receiver) = mpsc::channel(REVIEWS_WAITING_MAX);
        (Self(sender), receiver)
    }

    /// The objects that can affect the answer to a request. Waits for the first complete configuration.
    ///
    /// # Errors
    ///
    /// When too many reviews wait, or the control plane has ended.
    pub async fn surroundings(&self, request: Request) -> Result<(Request, ReviewContext), Busy> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Review { request, answer }).map_err(|_| Busy)?;
        answered.await.map_err(|_| Busy)
    }
}

impl Review {
    /// Sends the objects to the waiting thread of the webhook.
    pub fn answer(self, index: &Index, options: &Options) {
        let Self { request, answer } = self;
        if answer.is_closed() {
            return;
        }
        let surroundings = request.surroundings(index, options);
        // The receiver may be gone: the webhook's thread stops waiting after a while.
        let _ = answer.send((request, surroundings));
    }
}

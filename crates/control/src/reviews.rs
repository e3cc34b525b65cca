//! Takes a review from the webhook's thread to the control thread, which holds the objects, and returns the objects that can affect
//! it.
//!
//! The control thread only selects these objects. The webhook's thread parses, translates and answers.

use tokio::sync::{mpsc, oneshot};

use crate::admission::{Request, Surroundings};
use crate::index::Index;
use crate::options::Options;

/// Most reviews that wait for the control thread.
const REVIEWS_WAITING_MAX: usize = 64;

/// The sender of reviews, for the webhook's thread.
#[derive(Clone, Debug)]
pub struct Reviews(mpsc::Sender<Review>);

/// A review that waits for the objects that can affect it.
#[derive(Debug)]
pub struct Review {
    request: Request,
    answer: oneshot::Sender<(Request, Surroundings)>,
}

/// Too many reviews wait, or the control plane has ended.
#[derive(Debug, thiserror::Error)]
#[error("too much to do at the moment")]
pub struct Busy;

impl Reviews {
    /// A sender and the receiver for the control thread.
    pub fn channel() -> (Self, mpsc::Receiver<Review>) {
        let (sender, receiver) = mpsc::channel(REVIEWS_WAITING_MAX);
        (Self(sender), receiver)
    }

    /// The objects that can affect the answer to a request. Waits for the first complete configuration.
    ///
    /// # Errors
    ///
    /// When too many reviews wait, or the control plane has ended.
    pub async fn surroundings(&self, request: Request) -> Result<(Request, Surroundings), Busy> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Review { request, answer }).map_err(|_| Busy)?;
        answered.await.map_err(|_| Busy)
    }
}

impl Review {
    /// Sends the objects to the one who waits for them.
    pub fn answer(self, index: &Index, options: &Options) {
        let Self { request, answer } = self;
        if answer.is_closed() {
            return;
        }
        let surroundings = request.surroundings(index, options);
        // The one who waits may have given up.
        let _ = answer.send((request, surroundings));
    }
}

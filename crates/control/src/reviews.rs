//! The way of a review from the webhook's thread to the one that holds the objects, and back with what bears on it.
//!
//! The thread that holds the objects only picks; reading, translating and answering stay with the webhook's.

use tokio::sync::{mpsc, oneshot};

use crate::admission::{Request, Surroundings};
use crate::index::Index;
use crate::options::Options;

/// Reviews that may wait for the control thread.
const REVIEWS_WAITING_MAX: usize = 64;

/// The end that asks.
#[derive(Clone, Debug)]
pub struct Reviews(mpsc::Sender<Review>);

/// A review that waits for its surroundings.
#[derive(Debug)]
pub struct Review {
    request: Request,
    answer: oneshot::Sender<(Request, Surroundings)>,
}

/// Too many reviews wait, or nobody is there to answer.
#[derive(Debug, thiserror::Error)]
#[error("too much to do at the moment")]
pub struct Busy;

impl Reviews {
    /// Both ends.
    pub fn channel() -> (Self, mpsc::Receiver<Review>) {
        let (sender, receiver) = mpsc::channel(REVIEWS_WAITING_MAX);
        (Self(sender), receiver)
    }

    /// What bears on a request, as of now. Before there is a first configuration, this waits for it.
    ///
    /// # Errors
    ///
    /// When the control plane takes no more reviews at present, or has ended.
    pub async fn surroundings(&self, request: Request) -> Result<(Request, Surroundings), Busy> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Review { request, answer }).map_err(|_| Busy)?;
        answered.await.map_err(|_| Busy)
    }
}

impl Review {
    /// Hands over what bears on it.
    pub fn answer(self, index: &Index, options: &Options) {
        let Self { request, answer } = self;
        if answer.is_closed() {
            return;
        }
        let surroundings = request.surroundings(index, options);
        // Who asked may have given up meanwhile.
        let _ = answer.send((request, surroundings));
    }
}

//! The end of a try whose client has gone away.

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use observe::Reason;

use crate::answer::attempted::Attempted;
use crate::request::client::{self, Client};
use crate::upstream::ResponseTimer;
use crate::upstream::fault::Fault;

/// Runs `main` to its end, or until `side` comes upon a fault that makes its result useless.
pub(crate) async fn race<T>(
    mut main: Pin<&mut impl Future<Output = Result<T, Fault>>>,
    mut side: Pin<&mut impl Future<Output = Fault>>,
) -> Result<T, Fault> {
    poll_fn(|cx| match main.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(result),
        Poll::Pending => side.as_mut().poll(cx).map(Err),
    })
    .await
}

/// Ends when the client has gone away without a response. Nearly all responses have come before it is worth
/// looking.
pub(crate) async fn client_gone(attempted: &Attempted<'_, '_>, timer: &ResponseTimer<'_>) -> Fault {
    match attempted.client {
        Client::Http1(socket) => {
            // The timer wakes the task that both waits share.
            poll_fn(|_| if timer.is_slow() { Poll::Ready(()) } else { Poll::Pending }).await;
            let is_answered = || attempted.progress.is_answered();
            Box::pin(client::gone(socket, &attempted.worker.deadlines, is_answered)).await;
        }
        Client::Stream(stream) => poll_fn(|cx| stream.poll_gone(cx)).await,
    }
    if attempted.miss().is_some_and(|miss| miss.is_filling.get()) {
        // A response that fills the cache is for other clients too.
        pending::<()>().await;
    }
    Fault::never(Reason::ClientAborted)
}

/// As [`client_gone`], until the client is answered: a tunnel sees for itself who leaves it.
pub(crate) async fn client_gone_unanswered(
    attempted: &Attempted<'_, '_>,
    timer: &ResponseTimer<'_>,
) -> Fault {
    let gone = client_gone(attempted, timer).await;
    if attempted.progress.is_answered() { pending().await } else { gone }
}

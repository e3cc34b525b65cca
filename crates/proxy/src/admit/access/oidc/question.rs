//! Questions to a provider, which the control plane asks.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use identity::oidc::provider::{Answer, Ask, Provider};
use identity::oidc::tokens::{Failure, Granted};

use crate::admit::Targeted;
use crate::io::deadline::Elapsed;

/// Puts a question for tokens to the provider, and waits for its answer for some time.
pub(super) async fn ask(
    targeted: &Targeted<'_>,
    provider: &Provider,
    question: Ask,
    time: Duration,
) -> Result<Arc<Granted>, Failure> {
    match put(targeted, provider, question, time).await? {
        Answer::Granted(granted) => Ok(granted),
        Answer::Done | Answer::Ended(_) => Ok(Arc::default()),
    }
}

/// Puts any question to the provider, and waits for its answer for some time.
pub(super) async fn put(
    targeted: &Targeted<'_>,
    provider: &Provider,
    question: Ask,
    time: Duration,
) -> Result<Answer, Failure> {
    let away = |why: &str| Failure::Away(why.to_owned());
    let mut answered = provider.ask(question)?;
    let mut gone = pin!(targeted.client_gone());
    let waited = targeted.deadline.within(time, |cx| match Pin::new(&mut answered).poll(cx) {
        Poll::Ready(answer) => Poll::Ready(answer.unwrap_or_else(|_| Err(away("the process ends")))),
        Poll::Pending => gone.as_mut().poll(cx).map(|()| Err(away("the client has gone away"))),
    });
    waited.await.unwrap_or_else(|Elapsed| Err(away("there was no answer in time")))
}

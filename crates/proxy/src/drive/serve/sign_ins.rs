//! Messages of other replicas about sessions of people who have signed in.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use identity::oidc::provider::{self, Ask, Provider};
use identity::oidc::relay::{Message, seal_answer};
use identity::oidc::tokens::{Failure, Granted};

use crate::io::deadline::Elapsed;
use crate::limits::OIDC_RENEWAL_TIME_MAX_FOR_REPLICA;
use crate::request::Request;
use crate::request::reply::Answer;

/// Does as a message says, and answers it.
pub(super) async fn answer(request: &Request<'_>, message: Message) -> Answer {
    let peers = &request.worker.peers;
    match message {
        Message::Ended { provider, ending, at } => {
            for provider in peers.sign_ins.of_digest(&provider) {
                provider.note_ended(&ending, at);
            }
            Answer::forgotten()
        }
        Message::Renew { provider, session, wanted } => {
            let keys = peers.secret().and_then(|secret| secret.seal());
            let provider = peers.sign_ins.of_digest(&provider).pop();
            let (Some(keys), Some(provider)) = (keys, provider) else { return Answer::forgotten() };
            let question = Ask::Renew { session: Box::new(session.session()), wanted };
            let granted = renew(request, &provider, question).await;
            Answer::for_replica(seal_answer(keys, request.worker.clock.unix().as_secs(), &granted))
        }
    }
}

async fn renew(request: &Request<'_>, provider: &Provider, question: Ask) -> Result<Arc<Granted>, Failure> {
    let away = |why: &str| Failure::Away(why.to_owned());
    let mut answered = provider.ask(question)?;
    let waited = request.deadline.within(OIDC_RENEWAL_TIME_MAX_FOR_REPLICA, |cx| {
        match Pin::new(&mut answered).poll(cx) {
            Poll::Ready(answer) => Poll::Ready(answer.unwrap_or_else(|_| Err(away("the process ends")))),
            Poll::Pending => Poll::Pending,
        }
    });
    match waited.await.unwrap_or_else(|Elapsed| Err(away("there was no answer in time")))? {
        provider::Answer::Granted(granted) => Ok(granted),
        provider::Answer::Done | provider::Answer::Ended(_) => Ok(Arc::default()),
    }
}

//! Messages to the other replicas about sessions of people who have signed in.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use identity::oidc::relay::{Message, open_answer};
use identity::oidc::tokens::{Failure, Granted};
use model::Timeouts;
use observe::Reason;

use super::mark::{Kind, NAME_LOWER, add};
use super::members::{home, others};
use super::tell::Delivery;
use crate::io::deadline::Deadline;
use crate::limits::{
    OIDC_RENEWAL_TIME_MAX, OIDC_REPLICA_ANSWER_BYTES_MAX, REPLICA_CONNECT_TIME, REPLICA_ORDER_TIME_MAX,
    REPLICA_RESPONSE_TIME,
};
use crate::upstream;
use crate::upstream::exchange::{Whole, exchange};
use crate::worker::{Worker, WorkerConfig};

/// Sends a message to all other replicas. Returns once they have answered, or the time for it is up; replicas
/// that failed recently are not waited for.
pub(crate) async fn tell_sign_in(worker: &Rc<Worker>, config: &WorkerConfig, message: &Message) {
    let Some(request) = request(worker, message) else { return };
    let requests: Rc<[Vec<u8>]> = vec![request].into();
    let mut waited = Vec::new();
    for replica in others(worker, config) {
        let address = replica.address.ip();
        let delivery = Delivery {
            worker: Rc::clone(worker),
            replica: Rc::clone(replica),
            requests: Rc::clone(&requests),
        };
        let delivery = reactor::spawn(async move {
            if !delivery.send(REPLICA_ORDER_TIME_MAX).await {
                tracing::warn!(replica = %address, "the replica has not been told that a session has ended");
                delivery.worker.peers.rest(address, delivery.worker.clock.now());
            }
        });
        if !worker.peers.is_resting(address, worker.clock.now()) {
            waited.push(delivery);
        }
    }
    for delivery in waited {
        // Failures are logged in there.
        let _ = delivery.await;
    }
}

/// Has the replica that is the home of a session renew it, so that its refresh token is used once. None where
/// that is this replica, or cannot be reached: this one renews the session then.
pub(crate) async fn renew_at_home(
    worker: &Worker,
    config: &WorkerConfig,
    session: &[u8],
    message: &Message,
    time: Duration,
    deadline: &Deadline,
) -> Option<Result<Arc<Granted>, Failure>> {
    let keys = worker.peers.secret()?.seal()?;
    let home = home(worker, config, session)?;
    let address = home.address.ip();
    if worker.peers.is_resting(address, worker.clock.now()) {
        return None;
    }
    let request = request(worker, message)?;
    let timeouts = Timeouts {
        connect: REPLICA_CONNECT_TIME,
        read: time,
        send: REPLICA_RESPONSE_TIME,
        ..Timeouts::default()
    };
    let message = upstream::Message::bodiless(&request, &timeouts);
    let now = worker.clock.unix().as_secs();
    let read = |whole: Whole<'_>| {
        let is_replicas = whole.response.fields.find_name(whole.head, NAME_LOWER.as_bytes()).is_some();
        (is_replicas && whole.response.status == 200).then(|| open_answer(keys, now, whole.body)).flatten()
    };
    match exchange(worker, home, &message, OIDC_REPLICA_ANSWER_BYTES_MAX, deadline, read).await {
        Ok(answer) => answer,
        Err(fault) => {
            let is_late = fault.reason == Reason::UpstreamReadTimeout;
            // While it has time to renew the session, the refresh token must not be used here.
            if !is_late || time >= OIDC_RENEWAL_TIME_MAX {
                worker.peers.rest(address, worker.clock.now());
            }
            is_late.then(|| Err(Failure::Away("the replica that renews the session is late".to_owned())))
        }
    }
}

/// The request with a message; none if it is too long for a mark.
fn request(worker: &Worker, message: &Message) -> Option<Vec<u8>> {
    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: replica\r\nContent-Length: 0\r\n\r\n";
    let secret = worker.peers.secret()?;
    let now = worker.clock.unix().as_secs();
    add(HEAD, (Kind::SignIn, now), message.seal(secret.seal()?, now).as_bytes(), secret.key())
}

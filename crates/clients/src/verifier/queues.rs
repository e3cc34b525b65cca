//! Passwords that wait to be verified: a queue for each Secret, served in turn, so that the clients of one
//! tenant do not delay those of another.
//!
//! Within a Secret, no client and no user has more than a share of the queue, and the clients take turns: a
//! client that tries many passwords waits for itself. Must not be in here: hashes, and the thread.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use tokio::sync::oneshot;

use crate::limits::{
    PASSWORDS_WAITING_MAX, PASSWORDS_WAITING_PER_CLIENT_MAX, PASSWORDS_WAITING_PER_USER_MAX,
    PASSWORDS_WAITING_TOTAL_MAX,
};

/// The queues of all Secrets.
#[derive(Default)]
pub(super) struct Queues {
    by_secret: HashMap<Secret, VecDeque<Job>>,
    /// The Secrets that have a queue, the next one first.
    turns: VecDeque<Secret>,
    /// Passwords in all queues.
    total: usize,
    /// The verifier has been dropped.
    pub(super) is_closed: bool,
}

/// The digest of a Secret's users.
pub(super) type Secret = [u8; 32];

/// A password that waits.
pub(super) struct Job {
    pub(super) password: Vec<u8>,
    pub(super) hash: String,
    pub(super) user: String,
    pub(super) client: IpAddr,
    pub(super) result: oneshot::Sender<bool>,
}

/// So many passwords wait to be verified that another one would wait for too long.
#[derive(Debug)]
pub(super) struct Overloaded;

impl Queues {
    /// Queues a job, unless the queue of the Secret, the share of its client or its user, or all queues
    /// together are full.
    pub(super) fn push(&mut self, secret: Secret, job: Job) -> Result<(), Overloaded> {
        if self.total >= PASSWORDS_WAITING_TOTAL_MAX {
            return Err(Overloaded);
        }
        let queue = self.by_secret.entry(secret).or_default();
        let before = queue.len();
        if is_full(queue, &job) {
            // Jobs of clients that have gone leave the queue.
            queue.retain(|waiting| !waiting.result.is_closed());
            self.total -= before - queue.len();
            // The Secret keeps its turn, in which an empty queue is removed.
            if is_full(queue, &job) {
                return Err(Overloaded);
            }
        }
        if before == 0 {
            self.turns.push_back(secret);
        }
        queue.push_back(job);
        self.total += 1;
        Ok(())
    }

    /// The next job that a client still waits for.
    pub(super) fn pop(&mut self) -> Option<Job> {
        while let Some(secret) = self.turns.pop_front() {
            let queue = self.by_secret.get_mut(&secret).expect("a Secret that has a turn has a queue");
            let before = queue.len();
            let next = std::iter::from_fn(|| queue.pop_front()).find(|next| !next.result.is_closed());
            if let Some(next) = &next {
                put_back(queue, next.client);
            }
            self.total -= before - queue.len();
            if queue.is_empty() {
                self.by_secret.remove(&secret);
            } else {
                self.turns.push_back(secret);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}

fn is_full(queue: &VecDeque<Job>, job: &Job) -> bool {
    let of_client = queue.iter().filter(|waiting| waiting.client == job.client).count();
    let of_user = queue.iter().filter(|waiting| waiting.user == job.user).count();
    queue.len() >= PASSWORDS_WAITING_MAX
        || of_client >= PASSWORDS_WAITING_PER_CLIENT_MAX
        || of_user >= PASSWORDS_WAITING_PER_USER_MAX
}

/// Puts the other jobs of a client that has had its turn behind those of the other clients.
fn put_back(queue: &mut VecDeque<Job>, client: IpAddr) {
    let (own, mut others): (VecDeque<_>, VecDeque<_>) =
        queue.drain(..).partition(|waiting| waiting.client == client);
    others.extend(own);
    *queue = others;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_job(secret: u8, client: u8) -> (Secret, Job, oneshot::Receiver<bool>) {
        let (result, received) = oneshot::channel();
        let job = Job {
            password: vec![secret, client],
            hash: String::new(),
            user: format!("user {client}"),
            client: [192, 0, 2, client].into(),
            result,
        };
        ([secret; 32], job, received)
    }

    /// Clients that fill the queue of a Secret, each with one job.
    fn fill(queues: &mut Queues, secret: u8) -> Vec<oneshot::Receiver<bool>> {
        let jobs = (0..PASSWORDS_WAITING_MAX as u8).map(|client| new_job(secret, client));
        let pushed = jobs.map(|(secret, job, received)| {
            assert!(queues.push(secret, job).is_ok());
            received
        });
        pushed.collect()
    }

    #[test]
    fn a_full_queue_of_one_secret_delays_no_other() {
        let mut queues = Queues::default();
        let _results = fill(&mut queues, 1);
        let (secret, job, _) = new_job(1, 200);
        assert!(queues.push(secret, job).is_err());
        let (secret, job, _received) = new_job(2, 200);
        assert!(queues.push(secret, job).is_ok());
        let next: Vec<_> = (0..3).map(|_| queues.pop().unwrap().password[0]).collect();
        assert_eq!(next, [1, 2, 1], "in turn");
    }

    #[test]
    fn clients_that_have_gone_leave_the_queue() {
        let mut queues = Queues::default();
        for _ in 0..3 {
            drop(fill(&mut queues, 1));
        }
        let (secret, job, _received) = new_job(1, 1);
        assert!(queues.push(secret, job).is_ok());
        assert!(queues.pop().is_some(), "nothing is computed for clients that have gone");
        assert!(queues.pop().is_none());
        assert_eq!((queues.total, queues.by_secret.len(), queues.turns.len()), (0, 0, 0));
    }

    #[test]
    fn a_client_has_a_share_of_the_queue_and_waits_for_itself() {
        let (mut queues, mut results) = (Queues::default(), Vec::new());
        for number in 0..=PASSWORDS_WAITING_PER_CLIENT_MAX {
            let (secret, job, received) = new_job(1, 1);
            let job = Job { user: number.to_string(), ..job };
            assert_eq!(queues.push(secret, job).is_ok(), number < PASSWORDS_WAITING_PER_CLIENT_MAX);
            results.push(received);
        }
        for client in [2, 3] {
            let (secret, job, received) = new_job(1, client);
            assert!(queues.push(secret, job).is_ok());
            results.push(received);
        }
        let next: Vec<_> = (0..4).map(|_| queues.pop().unwrap().password[1]).collect();
        assert_eq!(next, [1, 2, 3, 1]);
    }

    #[test]
    fn a_user_has_a_share_of_the_queue() {
        let (mut queues, mut results) = (Queues::default(), Vec::new());
        for number in 0..=PASSWORDS_WAITING_PER_USER_MAX {
            let (secret, job, received) = new_job(1, number as u8);
            let job = Job { user: "alice".to_owned(), ..job };
            assert_eq!(queues.push(secret, job).is_ok(), number < PASSWORDS_WAITING_PER_USER_MAX);
            results.push(received);
        }
        let (secret, job, _received) = new_job(1, 1);
        assert!(queues.push(secret, job).is_ok(), "another user");
    }
}

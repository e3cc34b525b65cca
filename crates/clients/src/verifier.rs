//! Verification of passwords on a thread of its own, with a cache of those that were right.
//!
//! A password hash takes long to compute by design. A worker that computed one would stall all its clients;
//! on another thread, only those clients wait whose password is not cached. The cache holds neither passwords
//! nor hashes of them, but message authentication codes under a key of this process.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::rand::SystemRandom;
use model::Users;
use parking_lot::{Condvar, Mutex};
use quick_cache::sync::Cache as Map;
use tokio::sync::oneshot;

use crate::limits::{PASSWORDS_KNOWN_MAX, PASSWORDS_WAITING_MAX, PASSWORDS_WAITING_TOTAL_MAX};
use crate::password;

/// Verifies passwords for all workers.
pub struct Verifier {
    waiting: Arc<Waiting>,
    key: Key,
    /// Codes of the passwords that were right. Where there is no room, those are evicted that are used least.
    known: Map<[u8; 32], ()>,
}

/// The passwords that wait for the thread.
#[derive(Default)]
struct Waiting {
    queues: Mutex<Queues>,
    /// Wakes the thread.
    has_changed: Condvar,
}

/// A queue for each Secret, served in turn, so that the clients of one tenant do not delay those of another.
#[derive(Default)]
struct Queues {
    by_secret: HashMap<Secret, VecDeque<Job>>,
    /// The Secrets that have a queue, the next one first.
    turns: VecDeque<Secret>,
    /// Passwords in all queues.
    total: usize,
    /// The [`Verifier`] has been dropped.
    is_closed: bool,
}

/// The digest of a Secret's users.
type Secret = [u8; 32];

struct Job {
    password: Vec<u8>,
    hash: String,
    result: oneshot::Sender<bool>,
}

/// So many passwords wait to be verified that another one would wait for too long.
pub struct Overloaded;

impl Verifier {
    /// Starts the thread, which ends when the verifier is dropped. It calls `lower_priority` first.
    pub(crate) fn start(lower_priority: fn() -> io::Result<()>) -> io::Result<Self> {
        let verifier = Self::without_thread()?;
        let jobs = Arc::clone(&verifier.waiting);
        let work = move || {
            // A flood of wrong passwords must not take CPU time from other requests. With SCHED_IDLE, a fully
            // busy machine still leaves this thread about 0.3 % of a CPU (weight 3 beside 1024, sched(7)), so
            // that every password is verified in the end.
            if let Err(error) = lower_priority() {
                tracing::debug!(%error, "the thread for passwords keeps its priority");
            }
            while let Some(Job { password, hash, result }) = jobs.next() {
                let _ = result.send(password::matches(&password, &hash));
            }
        };
        std::thread::Builder::new().name("passwords".to_owned()).spawn(work)?;
        Ok(verifier)
    }

    fn without_thread() -> io::Result<Self> {
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| io::Error::other("no randomness"))?;
        Ok(Self { waiting: Arc::default(), key, known: Map::new(PASSWORDS_KNOWN_MAX) })
    }

    /// Whether a user has this password. A future that is dropped leaves the queue.
    ///
    /// # Errors
    ///
    /// When the queue of the Secret, or all queues together, are full.
    pub async fn verify(&self, users: &Users, user: &str, password: &[u8]) -> Result<bool, Overloaded> {
        let own = users.hash(user);
        // An unknown name takes as long as a known one, so that timing does not tell which names there are.
        let Some(hash) = own.or_else(|| users.stand_in(user)) else { return Ok(false) };
        if !password::is_costly(hash) {
            return Ok(password::matches(password, hash) && own.is_some());
        }
        let code = self.code(hash, user, password);
        if own.is_some() && self.known.get(&code).is_some() {
            return Ok(true);
        }
        let (result, received) = oneshot::channel();
        let job = Job { password: password.to_vec(), hash: hash.to_owned(), result };
        self.waiting.queues.lock().push(*users.digest(), job)?;
        self.waiting.has_changed.notify_one();
        let is_right = received.await.map_err(|_| Overloaded)? && own.is_some();
        if is_right {
            self.known.insert(code, ());
        }
        Ok(is_right)
    }

    /// The code under which a right password is cached. It depends on the user, the password and the user's
    /// hash, and not on the other users of the Secret.
    fn code(&self, hash: &str, user: &str, password: &[u8]) -> [u8; 32] {
        let len = |text: &str| (text.len() as u64).to_be_bytes();
        let text = [&len(hash), hash.as_bytes(), &len(user), user.as_bytes(), password].concat();
        let mut code = [0; 32];
        code.copy_from_slice(sign(&self.key, &text).as_ref());
        code
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        self.waiting.queues.lock().is_closed = true;
        self.waiting.has_changed.notify_all();
    }
}

impl Waiting {
    /// Waits for the next job; none once the verifier has been dropped.
    fn next(&self) -> Option<Job> {
        let mut queues = self.queues.lock();
        loop {
            if queues.is_closed {
                return None;
            }
            if let Some(job) = queues.pop() {
                return Some(job);
            }
            self.has_changed.wait(&mut queues);
        }
    }
}

impl Queues {
    /// Queues a job, unless the queue of the Secret or all queues together are full.
    fn push(&mut self, secret: Secret, job: Job) -> Result<(), Overloaded> {
        if self.total >= PASSWORDS_WAITING_TOTAL_MAX {
            return Err(Overloaded);
        }
        let queue = self.by_secret.entry(secret).or_default();
        if queue.len() >= PASSWORDS_WAITING_MAX {
            // Jobs of clients that have gone leave the queue.
            let before = queue.len();
            queue.retain(|job| !job.result.is_closed());
            self.total -= before - queue.len();
            if queue.len() >= PASSWORDS_WAITING_MAX {
                return Err(Overloaded);
            }
        } else if queue.is_empty() {
            self.turns.push_back(secret);
        }
        queue.push_back(job);
        self.total += 1;
        Ok(())
    }

    /// The next job that a client still waits for.
    fn pop(&mut self) -> Option<Job> {
        while let Some(secret) = self.turns.pop_front() {
            let queue = self.by_secret.get_mut(&secret).expect("a Secret that has a turn has a queue");
            let before = queue.len();
            let next = std::iter::from_fn(|| queue.pop_front()).find(|next| !next.result.is_closed());
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

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    fn users(digest: u8) -> Users {
        let hash = bcrypt::hash("secret", 4).unwrap();
        Users::new(vec![("a".to_owned(), hash)], [digest; 32])
    }

    fn verifier() -> Verifier {
        Verifier::start(|| Ok(())).unwrap()
    }

    fn new_job(secret: u8) -> (Secret, Job, oneshot::Receiver<bool>) {
        let (result, received) = oneshot::channel();
        ([secret; 32], Job { password: vec![secret], hash: String::new(), result }, received)
    }

    #[test]
    fn a_full_queue_of_one_secret_delays_no_other() {
        let mut queues = Queues::default();
        let mut results = Vec::new();
        for _ in 0..PASSWORDS_WAITING_MAX {
            let (secret, job, received) = new_job(1);
            assert!(queues.push(secret, job).is_ok());
            results.push(received);
        }
        let (secret, job, _) = new_job(1);
        assert!(queues.push(secret, job).is_err());
        let (secret, job, _received) = new_job(2);
        assert!(queues.push(secret, job).is_ok());
        let next: Vec<_> = (0..3).map(|_| queues.pop().unwrap().password[0]).collect();
        assert_eq!(next, [1, 2, 1], "in turn");
    }

    #[test]
    fn clients_that_have_gone_leave_the_queue() {
        let mut queues = Queues::default();
        for _ in 0..3 * PASSWORDS_WAITING_MAX {
            let (secret, job, _) = new_job(1);
            assert!(queues.push(secret, job).is_ok());
        }
        let (secret, job, _received) = new_job(1);
        assert!(queues.push(secret, job).is_ok());
        assert!(queues.pop().is_some(), "nothing is computed for clients that have gone");
        assert!(queues.pop().is_none());
        assert_eq!((queues.total, queues.by_secret.len(), queues.turns.len()), (0, 0, 0));
    }

    #[test]
    fn an_unknown_name_takes_as_long_as_a_known_one() {
        let verifier = Verifier::without_thread().unwrap();
        let users = users(1);
        for name in ["a", "nobody"] {
            let mut asked = std::pin::pin!(verifier.verify(&users, name, b"wrong"));
            assert!(asked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            let job = verifier.waiting.queues.lock().pop().expect("a hash is to be computed");
            assert!(password::is_costly(&job.hash), "{name}");
        }
    }

    #[tokio::test]
    async fn only_right_passwords_are_cached_and_for_this_hash_only() {
        let verifier = verifier();
        let first = users(1);
        let hash = first.hash("a").unwrap();
        assert!(!verifier.verify(&first, "a", b"wrong").await.unwrap_or(true));
        assert!(verifier.known.is_empty());
        assert!(verifier.verify(&first, "a", b"secret").await.unwrap_or(false));
        assert!(verifier.known.get(&verifier.code(hash, "a", b"secret")).is_some());
        let other = users(2);
        let other = other.hash("a").unwrap();
        assert!(verifier.known.get(&verifier.code(other, "a", b"secret")).is_none(), "salted anew");
        assert!(!verifier.verify(&first, "b", b"secret").await.unwrap_or(true));
    }

    #[tokio::test]
    async fn a_new_user_leaves_the_others_cached() {
        let verifier = verifier();
        let hash = bcrypt::hash("secret", 4).unwrap();
        let user = |name: &str| (name.to_owned(), hash.clone());
        let before = Users::new(vec![user("a")], [1; 32]);
        assert!(verifier.verify(&before, "a", b"secret").await.unwrap_or(false));
        let after = Users::new(vec![user("a"), user("b")], [2; 32]);
        let mut asked = std::pin::pin!(verifier.verify(&after, "a", b"secret"));
        let polled = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, std::task::Poll::Ready(Ok(true))), "without a hash");
    }
}

//! Verification of passwords on a thread of its own, with a memory of those that were right or wrong.
//!
//! A password hash takes long to compute by design. A worker that computed one would stall all its clients;
//! on another thread, only those clients wait whose password is not known. The thread yields the CPU to all
//! others, and rests after each wrong password, so that guesses take at most half of an idle CPU. The memory
//! holds neither passwords nor hashes of them, but message authentication codes under a key of this process.

mod queues;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::rand::SystemRandom;
use clock::Moment;
use model::Users;
use parking_lot::{Condvar, Mutex};
use quick_cache::sync::Cache as Map;
use tokio::sync::oneshot;

use crate::failures::Failures;
use crate::limits::{
    PASSWORDS_KNOWN_MAX, PASSWORDS_REST_MAX, PASSWORDS_WRONG_MAX, PASSWORDS_WRONG_PER_CLIENT,
    PASSWORDS_WRONG_TIME, PASSWORDS_WRONG_WINDOW,
};
use crate::password;
use queues::{Job, Overloaded, Queues};

/// Verifies passwords for all workers.
pub struct Verifier {
    waiting: Arc<Waiting>,
    key: Key,
    /// Codes of the passwords that were right. Where there is no room, those are evicted that are used least.
    known: Map<[u8; 32], ()>,
    /// Codes of those that were wrong, and until when they are remembered.
    wrong: Map<[u8; 32], Moment>,
    /// Wrong passwords of clients.
    failures: Failures,
}

/// The passwords that wait for the thread.
#[derive(Default)]
struct Waiting {
    queues: Mutex<Queues>,
    /// Wakes the thread.
    has_changed: Condvar,
}

/// A client that shows a password.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    /// The name of the user.
    pub user: &'a str,
    /// The password that is claimed to be the user's.
    pub password: &'a [u8],
    /// The client's address, or the network that stands for one client.
    pub client: IpAddr,
}

/// Why a password is not verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unverified {
    /// So many passwords wait that another one would wait for too long.
    Overloaded,
    /// The client has shown too many wrong ones; it may go on after this time.
    Exhausted(Duration),
}

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
            while let Some(Job { password, hash, result, .. }) = jobs.next() {
                let begin = clock::instant();
                let is_right = password::matches(&password, &hash);
                let _ = result.send(is_right);
                if !is_right {
                    jobs.rest(begin);
                }
            }
        };
        std::thread::Builder::new().name("passwords".to_owned()).spawn(work)?;
        Ok(verifier)
    }

    fn without_thread() -> io::Result<Self> {
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| io::Error::other("no randomness"))?;
        Ok(Self {
            waiting: Arc::default(),
            key,
            known: Map::new(PASSWORDS_KNOWN_MAX),
            wrong: Map::new(PASSWORDS_WRONG_MAX),
            failures: Failures::new(PASSWORDS_WRONG_WINDOW, PASSWORDS_WRONG_PER_CLIENT),
        })
    }

    /// Whether a user has this password. A future that is dropped leaves the queue.
    ///
    /// # Errors
    ///
    /// When the client has shown too many wrong passwords, or when the queue of the Secret, the share of the
    /// client or the user in it, or all queues together are full. A password that is known to be right is
    /// verified in any case.
    pub async fn verify(&self, users: &Users, attempt: Attempt<'_>, now: Moment) -> Result<bool, Unverified> {
        let Attempt { user, password, client } = attempt;
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
        if let Some(time) = self.failures.exhausted_for(client, now) {
            return Err(Unverified::Exhausted(time));
        }
        if self.wrong.get(&code).is_some_and(|until| now < until) {
            return Ok(false);
        }
        let (result, received) = oneshot::channel();
        let (text, name) = (hash.to_owned(), user.to_owned());
        let job = Job { password: password.to_vec(), hash: text, user: name, client, result };
        let pushed = self.waiting.queues.lock().push(*users.digest(), job);
        pushed.map_err(|Overloaded| Unverified::Overloaded)?;
        self.waiting.has_changed.notify_one();
        let is_right = received.await.map_err(|_| Unverified::Overloaded)? && own.is_some();
        if is_right {
            self.known.insert(code, ());
        } else {
            self.wrong.insert(code, now.after(PASSWORDS_WRONG_TIME));
            self.failures.count(client, now);
        }
        Ok(is_right)
    }

    /// The code under which a password is remembered. It depends on the user, the password and the user's
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

    /// Rests for as long as the work has taken that was begun then, within a bound, or until the verifier is
    /// dropped. The quota of a container counts the CPU time of this thread too, whatever its priority.
    fn rest(&self, begin: Instant) {
        let now = clock::instant();
        let end = now + now.duration_since(begin).min(PASSWORDS_REST_MAX);
        let mut queues = self.queues.lock();
        while !queues.is_closed && !self.has_changed.wait_until(&mut queues, end).timed_out() {}
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn users(digest: u8) -> Users {
        let hash = bcrypt::hash("secret", 4).unwrap();
        Users::new(vec![("a".to_owned(), hash)], [digest; 32])
    }

    fn verifier() -> Verifier {
        Verifier::start(|| Ok(())).unwrap()
    }

    fn attempt<'a>(user: &'a str, password: &'a [u8]) -> Attempt<'a> {
        Attempt { user, password, client: [192, 0, 2, 1].into() }
    }

    async fn is_right(verifier: &Verifier, users: &Users, user: &str, password: &[u8]) -> bool {
        verifier.verify(users, attempt(user, password), Moment::BEGIN).await.expect("it is verified")
    }

    #[test]
    fn an_unknown_name_takes_as_long_as_a_known_one() {
        let verifier = Verifier::without_thread().unwrap();
        let users = users(1);
        for name in ["a", "nobody"] {
            let mut asked = std::pin::pin!(verifier.verify(&users, attempt(name, b"wrong"), Moment::BEGIN));
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
        assert!(!is_right(&verifier, &first, "a", b"wrong").await);
        assert!(verifier.known.is_empty());
        assert!(is_right(&verifier, &first, "a", b"secret").await);
        assert!(verifier.known.get(&verifier.code(hash, "a", b"secret")).is_some());
        let other = users(2);
        let other = other.hash("a").unwrap();
        assert!(verifier.known.get(&verifier.code(other, "a", b"secret")).is_none(), "salted anew");
        assert!(!is_right(&verifier, &first, "b", b"secret").await);
    }

    #[tokio::test]
    async fn a_wrong_password_is_remembered_for_a_while() {
        let (verifier, users) = (verifier(), users(1));
        assert!(!is_right(&verifier, &users, "a", b"wrong").await);
        let poll = |now| {
            let mut asked = std::pin::pin!(verifier.verify(&users, attempt("a", b"wrong"), now));
            asked.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        };
        assert_eq!(poll(Moment::BEGIN), Poll::Ready(Ok(false)), "without a hash");
        assert_eq!(poll(Moment::BEGIN.after(PASSWORDS_WRONG_TIME)), Poll::Pending);
    }

    #[tokio::test]
    async fn a_client_with_many_wrong_passwords_is_refused_and_no_other() {
        let (verifier, users) = (verifier(), users(1));
        assert!(is_right(&verifier, &users, "a", b"secret").await);
        for number in 0..PASSWORDS_WRONG_PER_CLIENT {
            assert!(!is_right(&verifier, &users, "a", &number.to_be_bytes()).await);
        }
        let asked = verifier.verify(&users, attempt("a", b"another"), Moment::BEGIN).await;
        assert_eq!(asked, Err(Unverified::Exhausted(PASSWORDS_WRONG_WINDOW)));
        assert!(is_right(&verifier, &users, "a", b"secret").await, "it is known");
        let other = Attempt { client: [198, 51, 100, 7].into(), ..attempt("a", b"another") };
        assert_eq!(verifier.verify(&users, other, Moment::BEGIN).await, Ok(false));
        let later = Moment::BEGIN.after(PASSWORDS_WRONG_WINDOW);
        assert_eq!(verifier.verify(&users, attempt("a", b"another"), later).await, Ok(false));
    }

    #[test]
    fn the_thread_rests_no_longer_than_the_verifier_lives() {
        let verifier = Verifier::without_thread().unwrap();
        let waiting = Arc::clone(&verifier.waiting);
        drop(verifier);
        let begin = clock::instant();
        waiting.rest(begin);
        assert!(waiting.next().is_none());
    }

    #[tokio::test]
    async fn a_new_user_leaves_the_others_cached() {
        let verifier = verifier();
        let hash = bcrypt::hash("secret", 4).unwrap();
        let user = |name: &str| (name.to_owned(), hash.clone());
        let before = Users::new(vec![user("a")], [1; 32]);
        assert!(is_right(&verifier, &before, "a", b"secret").await);
        let after = Users::new(vec![user("a"), user("b")], [2; 32]);
        let mut asked = std::pin::pin!(verifier.verify(&after, attempt("a", b"secret"), Moment::BEGIN));
        let polled = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(true))), "without a hash");
    }
}

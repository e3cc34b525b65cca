//! Verifies passwords on a thread of its own, and remembers which were right.
//!
//! A hash is made to take long. A worker that computed one would keep all its clients waiting; here only those wait who have sent a
//! password that is not known yet. What is remembered is no password and no hash of one alone, but a code under a key that nobody knows.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::rand::SystemRandom;
use model::Users;
use parking_lot::{Condvar, Mutex};
use quick_cache::sync::Cache as Map;
use tokio::sync::oneshot;

use super::password;
use crate::limits::{PASSWORDS_KNOWN_MAX, PASSWORDS_WAITING_MAX, PASSWORDS_WAITING_TOTAL_MAX};
use crate::sys;

/// Verifies passwords for all workers.
pub(crate) struct Verifier {
    waiting: Arc<Waiting>,
    key: Key,
    /// Codes of the passwords that were right. Where there is no room, those go that are used least.
    known: Map<[u8; 32], ()>,
}

/// The passwords that wait for the thread.
#[derive(Default)]
struct Waiting {
    queues: Mutex<Queues>,
    has_come: Condvar,
}

/// A queue for each Secret. The queues are served in turn, so that the clients of one tenant keep nobody else's waiting.
#[derive(Default)]
struct Queues {
    by_secret: HashMap<Secret, VecDeque<Question>>,
    /// The Secrets that have a queue, the next one first.
    turns: VecDeque<Secret>,
    total: usize,
    is_closed: bool,
}

/// The digest of a Secret's users.
type Secret = [u8; 32];

struct Question {
    password: Vec<u8>,
    hash: String,
    answer: oneshot::Sender<bool>,
}

/// There are more passwords to verify than can be in a time that somebody would wait for.
pub(crate) struct Overloaded;

impl Verifier {
    /// Starts the thread, which ends when nobody can ask any more.
    pub(crate) fn start() -> io::Result<Self> {
        let waiting = Arc::<Waiting>::default();
        let questions = Arc::clone(&waiting);
        let answer = move || {
            // A flood of wrong passwords must not take CPU time from requests that need none. A fully busy machine still leaves this thread a
            // share, of about 0.3 % of a CPU (weight 3 beside 1024, sched(7)), so that every password is verified in the end.
            if let Err(error) = sys::yield_to_others() {
                tracing::debug!(%error, "the thread for passwords keeps its priority");
            }
            while let Some(Question { password, hash, answer }) = questions.next() {
                let _ = answer.send(password::matches(&password, &hash));
            }
        };
        std::thread::Builder::new().name("passwords".to_owned()).spawn(answer)?;
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| io::Error::other("no randomness"))?;
        Ok(Self { waiting, key, known: Map::new(PASSWORDS_KNOWN_MAX) })
    }

    /// Whether a user has this password. A future that is dropped gives its place in the queue back.
    pub(crate) async fn verify(
        &self,
        users: &Users,
        user: &str,
        password: &[u8],
    ) -> Result<bool, Overloaded> {
        let own = users.hash(user);
        // Nobody is to learn by the time of an answer which names there are.
        let Some(hash) = own.or_else(|| users.stand_in(user)) else { return Ok(false) };
        if !password::is_costly(hash) {
            return Ok(password::matches(password, hash) && own.is_some());
        }
        let code = self.code(hash, user, password);
        if own.is_some() && self.known.get(&code).is_some() {
            return Ok(true);
        }
        let (answer, answered) = oneshot::channel();
        let question = Question { password: password.to_vec(), hash: hash.to_owned(), answer };
        self.waiting.queues.lock().push(*users.digest(), question)?;
        self.waiting.has_come.notify_one();
        let is_right = answered.await.map_err(|_| Overloaded)? && own.is_some();
        if is_right {
            self.known.insert(code, ());
        }
        Ok(is_right)
    }

    /// Code under which a right password is remembered. Another user, another password and the same user with another hash have other codes; what
    /// becomes of other users of the Secret makes no difference.
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
        self.waiting.has_come.notify_all();
    }
}

impl Waiting {
    /// Waits for the next question; none when nobody can ask any more.
    fn next(&self) -> Option<Question> {
        let mut queues = self.queues.lock();
        loop {
            if queues.is_closed {
                return None;
            }
            if let Some(question) = queues.pop() {
                return Some(question);
            }
            self.has_come.wait(&mut queues);
        }
    }
}

impl Queues {
    fn push(&mut self, secret: Secret, question: Question) -> Result<(), Overloaded> {
        if self.total >= PASSWORDS_WAITING_TOTAL_MAX {
            return Err(Overloaded);
        }
        let queue = self.by_secret.entry(secret).or_default();
        if queue.len() >= PASSWORDS_WAITING_MAX {
            // Clients that have gone give their places back.
            let before = queue.len();
            queue.retain(|question| !question.answer.is_closed());
            self.total -= before - queue.len();
            if queue.len() >= PASSWORDS_WAITING_MAX {
                return Err(Overloaded);
            }
        } else if queue.is_empty() {
            self.turns.push_back(secret);
        }
        queue.push_back(question);
        self.total += 1;
        Ok(())
    }

    /// The next question that somebody still waits for.
    fn pop(&mut self) -> Option<Question> {
        while let Some(secret) = self.turns.pop_front() {
            let queue = self.by_secret.get_mut(&secret).expect("a Secret that has a turn has a queue");
            let before = queue.len();
            let next = std::iter::from_fn(|| queue.pop_front()).find(|next| !next.answer.is_closed());
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

    /// The scheduling policies (field 41 of `proc_pid_stat(5)`) of this process's threads for passwords.
    fn policies() -> Vec<String> {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let stats =
            threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("stat")).ok());
        let ours = stats.filter_map(|stat| {
            let (before, after) = stat.rsplit_once(") ")?;
            let is_ours = before.ends_with("(passwords");
            // The first field after the name is the third of all.
            is_ours.then(|| after.split(' ').nth(41 - 3).unwrap().to_owned())
        });
        ours.collect()
    }

    #[tokio::test]
    async fn passwords_are_verified_when_nobody_else_wants_the_cpu() {
        let verifier = Verifier::start().unwrap();
        // Once there is an answer, the thread has begun.
        assert!(verifier.verify(&users(1), "a", b"secret").await.unwrap_or(false));
        assert!(policies().contains(&libc::SCHED_IDLE.to_string()), "{:?}", policies());
    }

    fn ask(secret: u8) -> (Secret, Question, oneshot::Receiver<bool>) {
        let (answer, answered) = oneshot::channel();
        ([secret; 32], Question { password: vec![secret], hash: String::new(), answer }, answered)
    }

    #[test]
    fn a_full_queue_of_one_secret_is_in_nobody_elses_way() {
        let mut queues = Queues::default();
        let mut answers = Vec::new();
        for _ in 0..PASSWORDS_WAITING_MAX {
            let (secret, question, answer) = ask(1);
            assert!(queues.push(secret, question).is_ok());
            answers.push(answer);
        }
        let (secret, question, _) = ask(1);
        assert!(queues.push(secret, question).is_err());
        let (secret, question, _answer) = ask(2);
        assert!(queues.push(secret, question).is_ok());
        let next: Vec<_> = (0..3).map(|_| queues.pop().unwrap().password[0]).collect();
        assert_eq!(next, [1, 2, 1], "in turn");
    }

    #[test]
    fn clients_that_have_gone_give_their_places_back() {
        let mut queues = Queues::default();
        for _ in 0..3 * PASSWORDS_WAITING_MAX {
            let (secret, question, _) = ask(1);
            assert!(queues.push(secret, question).is_ok());
        }
        let (secret, question, _answer) = ask(1);
        assert!(queues.push(secret, question).is_ok());
        assert!(queues.pop().is_some(), "nothing is computed for those who have gone");
        assert!(queues.pop().is_none());
        assert_eq!((queues.total, queues.by_secret.len(), queues.turns.len()), (0, 0, 0));
    }

    #[test]
    fn an_unknown_name_takes_as_long_as_a_known_one() {
        let verifier = Verifier::start().unwrap();
        let users = users(1);
        for name in ["a", "nobody"] {
            let mut asked = std::pin::pin!(verifier.verify(&users, name, b"wrong"));
            let polled = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending(), "{name}: a hash is computed");
        }
    }

    #[tokio::test]
    async fn only_what_was_right_is_remembered_and_for_this_hash_only() {
        let verifier = Verifier::start().unwrap();
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
    async fn a_new_user_leaves_the_others_known() {
        let verifier = Verifier::start().unwrap();
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

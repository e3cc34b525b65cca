//! Verifies passwords on a thread of its own, and remembers which were right.
//!
//! A hash is made to take long. A worker that computed one would keep all its clients waiting; here only those wait who have sent a
//! password that is not known yet. What is remembered is no password and no hash of one alone, but a code under a key that nobody knows.

use std::collections::HashSet;
use std::io;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::rand::SystemRandom;
use model::Users;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::password;
use crate::limits::{PASSWORDS_KNOWN_MAX, PASSWORDS_WAITING_MAX};
use crate::sys;

/// Verifies passwords for all workers.
pub(crate) struct Verifier {
    waiting: mpsc::Sender<Question>,
    key: Key,
    /// Codes of the passwords that were right.
    known: Mutex<HashSet<[u8; 32]>>,
}

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
        let (waiting, mut questions) = mpsc::channel::<Question>(PASSWORDS_WAITING_MAX);
        let answer = move || {
            // A flood of wrong passwords must not take CPU time from requests that need none. A fully busy machine still leaves this thread a
            // share, of about 0.3 % of a CPU (weight 3 beside 1024, sched(7)), so that every password is verified in the end.
            if let Err(error) = sys::yield_to_others() {
                tracing::debug!(%error, "the thread for passwords keeps its priority");
            }
            while let Some(Question { password, hash, answer }) = questions.blocking_recv() {
                // Nobody may be waiting for it any more.
                if !answer.is_closed() {
                    let _ = answer.send(password::matches(&password, &hash));
                }
            }
        };
        std::thread::Builder::new().name("passwords".to_owned()).spawn(answer)?;
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| io::Error::other("no randomness"))?;
        Ok(Self { waiting, key, known: Mutex::default() })
    }

    /// Whether a user has this password.
    pub(crate) async fn verify(
        &self,
        users: &Users,
        user: &str,
        password: &[u8],
    ) -> Result<bool, Overloaded> {
        let Some(hash) = users.hash(user) else { return Ok(false) };
        if !password::is_costly(hash) {
            return Ok(password::matches(password, hash));
        }
        let code = self.code(users, user, password);
        if self.known.lock().contains(&code) {
            return Ok(true);
        }
        let (answer, answered) = oneshot::channel();
        let question = Question { password: password.to_vec(), hash: hash.to_owned(), answer };
        self.waiting.try_send(question).map_err(|_| Overloaded)?;
        let is_right = answered.await.map_err(|_| Overloaded)?;
        if is_right {
            self.remember(code);
        }
        Ok(is_right)
    }

    /// What a right password is remembered by. Other users, and the same with other passwords, have other codes.
    fn code(&self, users: &Users, user: &str, password: &[u8]) -> [u8; 32] {
        let text =
            [&users.digest()[..], &(user.len() as u64).to_be_bytes(), user.as_bytes(), password].concat();
        let mut code = [0; 32];
        code.copy_from_slice(sign(&self.key, &text).as_ref());
        code
    }

    fn remember(&self, code: [u8; 32]) {
        let mut known = self.known.lock();
        if known.len() >= PASSWORDS_KNOWN_MAX {
            known.clear();
        }
        known.insert(code);
    }
}

#[cfg(test)]
mod tests {
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

    #[tokio::test]
    async fn only_what_was_right_is_remembered_and_for_these_users_only() {
        let verifier = Verifier::start().unwrap();
        let first = users(1);
        assert!(!verifier.verify(&first, "a", b"wrong").await.unwrap_or(true));
        assert!(verifier.known.lock().is_empty());
        assert!(verifier.verify(&first, "a", b"secret").await.unwrap_or(false));
        assert!(verifier.known.lock().contains(&verifier.code(&first, "a", b"secret")));
        assert!(!verifier.known.lock().contains(&verifier.code(&users(2), "a", b"secret")));
        assert!(!verifier.verify(&first, "b", b"secret").await.unwrap_or(true));
    }
}

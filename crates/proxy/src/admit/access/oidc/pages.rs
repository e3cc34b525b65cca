//! The answers to clients whose sign-in does not go on, and to those that have signed out.

use crate::request::reply::Answer;

const PLAIN: &str = "text/plain; charset=utf-8";

/// The answer while the provider cannot be asked.
pub(super) fn away() -> Answer {
    let text = "503 Service Unavailable: the sign-in service cannot be reached at the moment\n";
    Answer::text(503, PLAIN, text.to_owned()).retry_after(5).setting_cookies([])
}

/// The answer to a sign-in that cannot go on, with what the client can do.
pub(super) fn failed(status: u16, why: &str) -> Answer {
    let text = format!("Sign-in failed: {why}\nOpen the page again to sign in.\n");
    Answer::text(status, PLAIN, text)
}

/// The answer to a client that has signed out and has no other place to go to.
pub(super) fn signed_out() -> Answer {
    Answer::text(200, PLAIN, "You are signed out.\n".to_owned())
}

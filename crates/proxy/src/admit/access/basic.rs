//! HTTP Basic authentication (RFC 7617; ingress-nginx: `auth-type: basic`).

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use clients::{Attempt, Unverified};
use model::BasicAuth;
use observe::Reason;

use super::hold::hold_back;
use super::key::network;
use crate::admit::Targeted;
use crate::io::deadline::Elapsed;
use crate::limits::PASSWORD_TIME_MAX;
use crate::request::reply::Answer;
use crate::request::stage::Watch;
use crate::route::filters::FilterResult;

/// Decoded as nginx does: padding may be missing, and unused bits may be set.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

pub(super) async fn check(targeted: &Targeted<'_>, basic: &BasicAuth, watch: impl Watch) -> FilterResult {
    let field = targeted.parsed.fields.find_name(targeted.head, b"authorization");
    let credentials = field.and_then(|field| credentials(field.value(targeted.head)));
    let verified = match &credentials {
        Some((user, password)) => verify(targeted, basic, user, password).await,
        None => Ok(false),
    };
    match verified {
        Ok(true) => FilterResult::Continue,
        Ok(false) => {
            let challenge = format!("Basic realm=\"{}\"", basic.realm).into_bytes();
            FilterResult::Answer(Answer::refusal(401, &[challenge]))
        }
        Err(Denied::Exhausted(time)) => {
            if !watch.explains() {
                Box::pin(hold_back(targeted)).await;
            }
            FilterResult::Answer(Answer::refusal(429, &[]).retry_after(time.as_secs() + 1))
        }
        Err(Denied::Failed(reason)) => FilterResult::Refuse(reason),
    }
}

/// Why a password is neither right nor wrong.
enum Denied {
    /// Its client has shown too many wrong ones, and has to wait.
    Exhausted(Duration),
    Failed(Reason),
}

/// Whether a password is right. A client that leaves meanwhile leaves the queue too.
async fn verify(
    targeted: &Targeted<'_>,
    basic: &BasicAuth,
    user: &str,
    password: &[u8],
) -> Result<bool, Denied> {
    let verifier = &targeted.worker.clients.verifier;
    let client = network(targeted.forwarded.client.to_canonical());
    let attempt = Attempt { user, password, client };
    let mut verified = pin!(verifier.verify(&basic.users, attempt, targeted.worker.clock.now()));
    let mut gone = pin!(targeted.client_gone());
    let waited = targeted.deadline.within(PASSWORD_TIME_MAX, |cx| match verified.as_mut().poll(cx) {
        Poll::Ready(verified) => Poll::Ready(verified.map_err(Denied::from)),
        Poll::Pending => gone.as_mut().poll(cx).map(|()| Err(Denied::Failed(Reason::ClientAborted))),
    });
    let late = |Elapsed| Err(Denied::Failed(targeted.late_or(Reason::PasswordLimit)));
    waited.await.unwrap_or_else(late)
}

impl From<Unverified> for Denied {
    fn from(unverified: Unverified) -> Self {
        match unverified {
            Unverified::Overloaded => Self::Failed(Reason::PasswordLimit),
            Unverified::Exhausted(time) => Self::Exhausted(time),
        }
    }
}

/// The name and the password in the value of `Authorization`.
fn credentials(value: &[u8]) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let text = BASE64.decode(encoded.trim_ascii()).ok()?;
    let colon = text.iter().position(|&byte| byte == b':')?;
    Some((String::from_utf8(text[..colon].to_vec()).ok()?, text[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
    use clients::Clients;
    use clock::Moment;
    use model::Users;
    use proptest::prelude::*;

    use super::*;
    use crate::io::sys;

    #[test]
    fn credentials_are_a_name_and_the_rest() {
        assert_eq!(credentials(b"bASIC YTpiOmM="), Some(("a".to_owned(), b"b:c".to_vec())));
        assert_eq!(credentials(b"Basic Og=="), Some((String::new(), Vec::new())));
        assert_eq!(credentials(b"Basic YTpiYw"), Some(("a".to_owned(), b"bc".to_vec())), "without padding");
        for value in
            [&b""[..], b"Basic", b"Bearer YTpi", b"Basic !", b"Basic YWI=", b"Basic YTpi YTpi", b"Basic Oi_"]
        {
            assert_eq!(credentials(value), None, "{}", value.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn no_value_panics(value: Vec<u8>, encoded in "[bB]asic [A-Za-z0-9+/_=: -]{0,40}") {
            let _ = (credentials(&value), credentials(&[b"Basic ", &value[..]].concat()));
            let _ = credentials(encoded.as_bytes());
        }

        /// "The first colon ends the user-id" (RFC 7617 section 2): a password may hold colons, and any
        /// bytes.
        #[test]
        fn what_a_client_encodes_is_read(
            user in "[^:]{0,20}",
            password: Vec<u8>,
            scheme in "[bB][aA][sS][iI][cC] {1,3}",
            is_padded: bool,
        ) {
            let text = [user.as_bytes(), b":", &password].concat();
            let encoded = if is_padded { STANDARD.encode(text) } else { STANDARD_NO_PAD.encode(text) };
            prop_assert_eq!(credentials(format!("{scheme}{encoded} ").as_bytes()), Some((user, password)));
        }

        #[test]
        fn without_a_colon_there_is_no_name(text in "[^:]{0,40}") {
            prop_assert_eq!(credentials(format!("Basic {}", STANDARD.encode(text)).as_bytes()), None);
        }
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
        /// Made by `openssl passwd -1 -salt saltsalt secret`.
        const HASH: &str = "$1$saltsalt$9xy1btjgzLYfb7hivXtC//";
        let clients = Clients::start(1, None, sys::yield_to_others).unwrap();
        let users = Users::new(vec![("a".to_owned(), HASH.to_owned())], [1; 32]);
        // The thread has begun once there is a result.
        let attempt = Attempt { user: "a", password: b"secret", client: [192, 0, 2, 1].into() };
        assert_eq!(clients.verifier.verify(&users, attempt, Moment::BEGIN).await, Ok(true));
        assert!(policies().contains(&libc::SCHED_IDLE.to_string()), "{:?}", policies());
    }
}

//! Lets only clients pass that know a password (RFC 7617; ingress-nginx: `auth-type: basic`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::BasicAuth;
use observe::Reason;

use crate::clients::Overloaded;
use crate::exchange::Exchange;
use crate::filters::FilterResult;
use crate::reply::Answer;

pub(super) async fn check(exchange: &Exchange<'_>, basic: &BasicAuth) -> FilterResult {
    let field = exchange.request.fields.find_name(exchange.head, b"authorization");
    let credentials = field.and_then(|field| credentials(field.value(exchange.head)));
    let is_right = match &credentials {
        Some((user, password)) => exchange.worker.clients.verifier.verify(&basic.users, user, password).await,
        None => Ok(false),
    };
    match is_right {
        Ok(true) => FilterResult::Continue,
        Ok(false) => {
            let challenge = format!("Basic realm=\"{}\"", basic.realm).into_bytes();
            FilterResult::Answer(Answer::refusal(401, &[challenge]))
        }
        Err(Overloaded) => FilterResult::Refuse(Reason::PasswordLimit),
    }
}

/// The name and the password in the value of `Authorization`.
fn credentials(value: &[u8]) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let text = STANDARD.decode(encoded.trim_ascii()).ok()?;
    let colon = text.iter().position(|&byte| byte == b':')?;
    Some((String::from_utf8(text[..colon].to_vec()).ok()?, text[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_a_name_and_the_rest() {
        assert_eq!(credentials(b"bASIC YTpiOmM="), Some(("a".to_owned(), b"b:c".to_vec())));
        assert_eq!(credentials(b"Basic Og=="), Some((String::new(), Vec::new())));
        for value in [&b""[..], b"Basic", b"Bearer YTpi", b"Basic !", b"Basic YWI="] {
            assert_eq!(credentials(value), None);
        }
    }
}

//! Clients that show a JSON Web Token (`forebay.io/auth-jwt`).
//!
//! A token that was verified before costs a look-up. Of another one, what it says is compared before its
//! signature is checked. A token whose key is not known waits for the issuer's keys, within a bound; so does
//! one whose signature is to be checked, for its part of the worker's time.

mod place;

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clients::VerifiedToken;
use identity::claims::header_value;
use identity::json::Value;
use identity::{KeySet, KeySource, Refusal, Token};
use model::{Jwt, JwtIssuer};
use observe::{Counter, Reason};

use super::key;
use crate::admit::Targeted;
use crate::io::cpu_share::Piece;
use crate::limits::{TOKEN_KEYS_WAIT_MAX, TOKEN_TURN_WAIT_MAX};
use crate::request::decision::Decision;
use crate::request::reply::Answer;
use crate::request::stage::Watch;
use crate::route::filters::FilterResult;

/// The verified token of a request, or the reason why there is none.
type Identified = Result<Arc<VerifiedToken>, Denied>;

/// The token of a request, behind the check.
pub(super) struct Shown<'j> {
    jwt: &'j Jwt,
    identified: Identified,
}

/// Why a request has no verified token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Denied {
    /// It has no token.
    Absent,
    /// Its token is not accepted.
    Refused(Refusal),
    /// The keys of its issuer are not known yet.
    NoKeys,
    /// Its client has had too many forged tokens, or too many tokens wait to be verified.
    Exhausted,
}

/// Verifies the token of a request. The endpoint gets the headers with claims; the client itself can set none
/// of them. `is_unknown` says that the token has just been looked up, and not been found.
pub(super) async fn identify<'j>(
    targeted: &Targeted<'_>,
    jwt: &'j Jwt,
    is_unknown: bool,
    decision: &mut Decision,
    watch: impl Watch,
) -> Shown<'j> {
    let token = place::find(targeted, &jwt.place);
    if jwt.strips {
        place::strip(targeted, &jwt.place, decision);
    }
    let identified = match &token {
        place::Found::Nothing => Err(Denied::Absent),
        place::Found::Several => Err(Denied::Refused(Refusal::Malformed)),
        place::Found::Token(token) if is_unknown => verify_new(targeted, jwt, token, watch).await,
        place::Found::Token(token) => verify(targeted, jwt, token, watch).await,
    };
    if let Err(denied) = &identified {
        targeted.worker.recorder.borrow().count(counter(*denied));
    }
    know(jwt, identified.as_ref().ok(), decision);
    Shown { jwt, identified }
}

/// Whether a request is let in by a token that was verified before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AtOnce {
    Allowed,
    /// It has a token that is not known.
    Unknown,
    Undecided,
}

/// Lets a request in whose token was verified before, if the rules allow the request.
pub(super) fn let_in_at_once(targeted: &Targeted<'_>, jwt: &Jwt, decision: &mut Decision) -> AtOnce {
    let place::Found::Token(token) = place::find(targeted, &jwt.place) else { return AtOnce::Undecided };
    let Some(verified) = known(targeted, jwt, token) else { return AtOnce::Unknown };
    if !is_allowed(targeted, jwt, &verified) {
        return AtOnce::Undecided;
    }
    if jwt.strips {
        place::strip(targeted, &jwt.place, decision);
    }
    targeted.worker.recorder.borrow().count(Counter::TokenRepeated);
    know(jwt, Some(&verified), decision);
    AtOnce::Allowed
}

/// Whether the rules allow the request of a client with a token.
fn is_allowed(targeted: &Targeted<'_>, jwt: &Jwt, verified: &VerifiedToken) -> bool {
    let (method, path) = (targeted.method(), targeted.client_path());
    jwt.rules.as_ref().is_none_or(|rules| rules.allow(method, path, &verified.claims))
}

/// Notes who the client is, and what the endpoint is told about it.
fn know(jwt: &Jwt, verified: Option<&Arc<VerifiedToken>>, decision: &mut Decision) {
    let claims = verified.map(|verified| &verified.claims);
    for (name, path) in &jwt.headers {
        let value = claims.and_then(|claims| path.find(claims)).and_then(header_value);
        decision.tell(name, value.map(String::into_bytes));
    }
    if let Some(verified) = verified {
        if let (None, Some(Value::String(subject))) = (&decision.user, verified.claims.get("sub")) {
            decision.user = Some(subject.as_str().into());
        }
        decision.token = Some(Arc::clone(verified));
    }
}

impl Shown<'_> {
    /// Whether the client has had too many forged tokens.
    pub(super) fn is_exhausted(&self) -> bool {
        matches!(self.identified, Err(Denied::Exhausted))
    }

    /// Whether the request is let in by its token.
    pub(super) fn check(&self, targeted: &Targeted<'_>) -> FilterResult {
        let challenge = |text: String| FilterResult::Answer(Answer::refusal(401, &[text.into_bytes()]));
        let verified = match &self.identified {
            Ok(verified) => verified,
            Err(Denied::Absent) => return challenge("Bearer".to_owned()),
            Err(Denied::Refused(refusal)) => {
                let why = refusal.description();
                return challenge(format!("Bearer error=\"invalid_token\", error_description=\"{why}\""));
            }
            Err(Denied::NoKeys) => return FilterResult::Refuse(Reason::TokenKeys),
            Err(Denied::Exhausted) => {
                return FilterResult::Answer(Answer::refusal(429, &[]).retry_after(1));
            }
        };
        if is_allowed(targeted, self.jwt, verified) {
            return FilterResult::Continue;
        }
        let why = Refusal::Claims.description();
        let challenge = format!("Bearer error=\"insufficient_scope\", error_description=\"{why}\"");
        FilterResult::Answer(Answer::refusal(403, &[challenge.into_bytes()]))
    }
}

async fn verify(targeted: &Targeted<'_>, jwt: &Jwt, token: &[u8], watch: impl Watch) -> Identified {
    let worker = targeted.worker;
    if let Some(known) = known(targeted, jwt, token) {
        worker.recorder.borrow().count(Counter::TokenRepeated);
        return Ok(known);
    }
    Box::pin(verify_new(targeted, jwt, token, watch)).await
}

/// A token that was verified before, with the present keys of its issuer.
fn known(targeted: &Targeted<'_>, jwt: &Jwt, token: &[u8]) -> Option<Arc<VerifiedToken>> {
    let (worker, now) = (targeted.worker, targeted.worker.clock.now());
    let known = worker.clients.tokens.verified(&jwt.fingerprint, token, now)?;
    let issuer = jwt.issuers.get(known.issuer)?;
    (issuer.keys.generation() == known.generation).then_some(known)
}

/// Verifies a token that is not known.
async fn verify_new(targeted: &Targeted<'_>, jwt: &Jwt, text: &[u8], watch: impl Watch) -> Identified {
    let (worker, tokens) = (targeted.worker, &targeted.worker.clients.tokens);
    let unix = worker.clock.wall();
    let Acceptable { token, issuer, until } = glance(jwt, text, unix).map_err(Denied::Refused)?;
    let source = &jwt.issuers[issuer].keys;
    let Some((keys, generation)) = await_keys(targeted, source, &token, watch).await else {
        return Err(Denied::NoKeys);
    };
    let (now, client) = (worker.clock.now(), key::network(targeted.forwarded.client.to_canonical()));
    if tokens.is_forged(&jwt.fingerprint, text, generation, now) {
        return Err(Denied::Refused(Refusal::Signature));
    }
    if tokens.is_exhausted(client, now) {
        return Err(Denied::Exhausted);
    }
    let piece = if watch.explains() { None } else { Some(await_turn(targeted, client).await?) };
    // While it waited, another request may have had the same token verified.
    if let Some(known) = known(targeted, jwt, text) {
        worker.recorder.borrow().count(Counter::TokenRepeated);
        return Ok(known);
    }
    let verified = token.verify(&keys);
    drop(piece);
    let now = worker.clock.now();
    let claims = match verified {
        Ok(claims) => claims,
        Err(refusal) => {
            if refusal == Refusal::Signature && !watch.explains() {
                tokens.keep_forged(&jwt.fingerprint, text, generation, now);
                tokens.count_forged(client, now);
            }
            return Err(Denied::Refused(refusal));
        }
    };
    let until = now.after(until.saturating_sub(unix));
    let verified = Arc::new(VerifiedToken { issuer, generation, until, claims });
    if !watch.explains() {
        tokens.keep(&jwt.fingerprint, text, Arc::clone(&verified));
    }
    worker.recorder.borrow().count(Counter::TokenVerified);
    Ok(verified)
}

/// Waits until the signature of a client's token may be checked: all of them together get a share of the
/// worker's time. Clients that have had forged tokens a short time ago wait for all others.
async fn await_turn(targeted: &Targeted<'_>, client: IpAddr) -> Result<Piece, Denied> {
    let worker = targeted.worker;
    let is_suspect = worker.clients.tokens.is_suspect(client, worker.clock.now());
    let mut entering = pin!(worker.fairness.signatures.enter(&worker.clock, is_suspect));
    let waited = targeted.deadline.within(TOKEN_TURN_WAIT_MAX, |cx| entering.as_mut().poll(cx)).await;
    waited.ok().flatten().ok_or(Denied::Exhausted)
}

/// A token that says what is asked of it; its signature is yet to be checked.
struct Acceptable<'t> {
    token: Token<'t>,
    /// The number of its issuer.
    issuer: usize,
    /// Until when it is valid, since 1970.
    until: Duration,
}

/// Compares what a token says with what its issuer's tokens have to say, at a time since 1970.
fn glance<'t>(jwt: &Jwt, text: &'t [u8], now: Duration) -> Result<Acceptable<'t>, Refusal> {
    let token = Token::parse(text)?;
    let is_named = |issuer: &JwtIssuer| token.issuer() == Some(&issuer.terms.issuer);
    let issuer = jwt.issuers.iter().position(is_named).ok_or(Refusal::Issuer)?;
    let until = token.check(&jwt.issuers[issuer].terms, now)?;
    Ok(Acceptable { token, issuer, until })
}

/// The keys of an issuer. If there are none yet, or none for this token, they are requested, and awaited for
/// a while. None if there are none at all.
async fn await_keys(
    targeted: &Targeted<'_>,
    source: &Arc<KeySource>,
    token: &Token<'_>,
    watch: impl Watch,
) -> Option<(Arc<KeySet>, u64)> {
    let current = source.current();
    let is_known = current.as_ref().is_some_and(|(keys, _)| token.has_key_in(keys));
    if is_known || watch.explains() {
        return current;
    }
    let Some(refresh) = source.refresh(targeted.worker.clock.wall()) else { return current };
    let mut refresh = pin!(refresh);
    let waited = targeted.deadline.within(TOKEN_KEYS_WAIT_MAX, |cx| refresh.as_mut().poll(cx)).await;
    if waited.is_ok() { source.current() } else { current }
}

fn counter(denied: Denied) -> Counter {
    match denied {
        Denied::Absent => Counter::TokenAbsent,
        Denied::NoKeys => Counter::TokenNoKeys,
        Denied::Exhausted => Counter::TokenExhausted,
        Denied::Refused(refusal) => match refusal {
            Refusal::Malformed => Counter::TokenMalformed,
            Refusal::TooLong => Counter::TokenTooLong,
            Refusal::Algorithm => Counter::TokenAlgorithm,
            Refusal::Issuer => Counter::TokenIssuer,
            Refusal::Audience => Counter::TokenAudience,
            Refusal::Expired => Counter::TokenExpired,
            Refusal::Early => Counter::TokenEarly,
            Refusal::Claims => Counter::TokenClaims,
            Refusal::Key => Counter::TokenKey,
            Refusal::Signature => Counter::TokenSignature,
        },
    }
}

/// Describes the outcome of the check of a token, in words for an operator.
pub(crate) fn in_words(targeted: &Targeted<'_>, jwt: &Jwt, token: Option<&VerifiedToken>) -> String {
    if let Some(token) = token {
        let subject = token.claims.get("sub").and_then(Value::as_str);
        return subject.map_or("the token is good".to_owned(), |name| format!("the token is that of {name}"));
    }
    let text = match place::find(targeted, &jwt.place) {
        place::Found::Nothing => return "there is no token".to_owned(),
        place::Found::Several => return "there are several tokens".to_owned(),
        place::Found::Token(text) => text,
    };
    match glance(jwt, text, targeted.worker.clock.wall()) {
        Err(refusal) => format!("{} ({})", refusal.description(), refusal.name()),
        Ok(Acceptable { issuer, .. }) => {
            let source = &jwt.issuers[issuer].keys;
            let name = source.name();
            match source.current() {
                None => format!("the keys at {name} have not been fetched yet"),
                Some(_) => format!("no key of {name} has made the signature of the token"),
            }
        }
    }
}

#[cfg(test)]
mod tests;

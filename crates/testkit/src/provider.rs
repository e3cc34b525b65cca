//! A provider of `OpenID Connect` on this machine: document, keys and token endpoint over HTTP. Its users
//! sign in by a call of the test, and its clock, its claims and its faults are the test's.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::accepting::Accepting;

/// Name and secret of the one client.
pub const CLIENT: (&str, &str) = ("client", "s:cret");

/// A provider with one client and one user.
pub struct Provider {
    shared: Arc<Shared>,
    accepting: Accepting,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    issuer: String,
    keys: Vec<EcdsaKeyPair>,
    claims: Value,
    /// Seconds that its clock is ahead.
    clock: i64,
    lifetime: u64,
    is_away: bool,
    is_held: bool,
    /// ID tokens have the user's `sub` alone; the rest is at the userinfo endpoint.
    is_thin: bool,
    /// The sign-ins whose codes have not been redeemed.
    codes: HashMap<String, SignIn>,
    /// The sessions of refresh tokens. One that was used has none.
    refresh_tokens: HashMap<String, Option<String>>,
    /// Sessions that are over.
    ended: Vec<String>,
    count: usize,
    sign_ins: usize,
    renewals: usize,
    waiting: usize,
}

struct SignIn {
    nonce: String,
    challenge: String,
    redirect_uri: String,
    sid: String,
}

impl Default for Provider {
    fn default() -> Self {
        Self::start()
    }
}

impl Provider {
    /// Starts a provider.
    pub fn start() -> Self {
        let state = State {
            issuer: String::new(),
            keys: vec![key()],
            claims: json!({"sub": "u-1", "email": "ann@a.test", "groups": ["staff", "admin"]}),
            clock: 0,
            lifetime: 300,
            is_away: false,
            is_held: false,
            is_thin: false,
            codes: HashMap::new(),
            refresh_tokens: HashMap::new(),
            ended: Vec::new(),
            count: 0,
            sign_ins: 0,
            renewals: 0,
            waiting: 0,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let for_thread = Arc::clone(&shared);
        let accepting =
            Accepting::start(IpAddr::V4(Ipv4Addr::LOCALHOST), move |stream| for_thread.serve(stream));
        shared.lock().issuer = format!("http://{}", accepting.address());
        Self { shared, accepting }
    }

    /// The issuer, as its tokens say it.
    pub fn issuer(&self) -> String {
        format!("http://{}", self.accepting.address())
    }

    /// The user signs in at the page to which a client was sent. Returns the URL to which the user is sent
    /// back.
    pub fn sign_in(&self, location: &str) -> String {
        let mut state = self.shared.lock();
        let query = location.strip_prefix(&format!("{}/auth?", state.issuer));
        let pairs = pairs(query.unwrap_or_else(|| panic!("not the page of the provider: {location}")));
        let value =
            |name: &str| pairs.get(name).cloned().unwrap_or_else(|| panic!("no {name} in {location}"));
        assert_eq!((value("response_type"), value("client_id")), ("code".to_owned(), CLIENT.0.to_owned()));
        assert_eq!(value("code_challenge_method"), "S256");
        assert!(value("scope").split(' ').any(|scope| scope == "openid"), "{location}");
        state.count += 1;
        let (code, sid) = (format!("code-{}", state.count), format!("sid-{}", state.count));
        let redirect_uri = value("redirect_uri");
        let answer = format!("{redirect_uri}?code={code}&state={}", value("state"));
        let sign_in = SignIn { nonce: value("nonce"), challenge: value("code_challenge"), redirect_uri, sid };
        state.codes.insert(code, sign_in);
        answer
    }

    /// Answers with errors, or does so no more.
    pub fn set_away(&self, is_away: bool) {
        self.shared.lock().is_away = is_away;
    }

    /// Keeps answers of the token endpoint back, or lets them go.
    pub fn hold(&self, is_held: bool) {
        self.shared.lock().is_held = is_held;
        self.shared.changed.notify_all();
    }

    /// Waits until so many requests for tokens are held.
    pub fn await_held(&self, number: usize) {
        let mut state = self.shared.lock();
        while state.waiting < number {
            let waited = self.shared.changed.wait_timeout(state, crate::PATIENCE);
            let (next, time) = waited.unwrap_or_else(PoisonError::into_inner);
            assert!(!time.timed_out(), "nobody asks for tokens");
            state = next;
        }
    }

    /// Sets its clock so many seconds ahead.
    pub fn set_clock(&self, seconds: i64) {
        self.shared.lock().clock = seconds;
    }

    /// Sets the claims of its user.
    pub fn set_claims(&self, claims: Value) {
        self.shared.lock().claims = claims;
    }

    /// Gives no claims of the user in ID tokens, but at the userinfo endpoint, which has to be set before it
    /// is asked for its document.
    pub fn set_thin(&self) {
        self.shared.lock().is_thin = true;
    }

    /// Signs with another key from now on, and publishes that one alone.
    pub fn change_key(&self) {
        self.shared.lock().keys = vec![key()];
    }

    /// Ends the sessions so far: no refresh token counts any more.
    pub fn end_sessions(&self) {
        let mut state = self.shared.lock();
        let sessions: Vec<_> = state.refresh_tokens.values().flatten().cloned().collect();
        state.ended.extend(sessions);
    }

    /// Codes that have been redeemed.
    pub fn sign_ins(&self) -> usize {
        self.shared.lock().sign_ins
    }

    /// Refresh tokens that have been used.
    pub fn renewals(&self) -> usize {
        self.shared.lock().renewals
    }

    /// The session of the user who has signed in last.
    pub fn last_sid(&self) -> String {
        format!("sid-{}", self.shared.lock().count)
    }

    /// A token with these claims; issuer, audience and times are added.
    pub fn token(&self, claims: Value) -> String {
        self.shared.lock().token(claims)
    }

    /// A logout token for a session.
    pub fn logout_token(&self, sid: &str) -> String {
        let mut state = self.shared.lock();
        state.count += 1;
        let id = format!("logout-{}", state.count);
        let events = json!({"http://schemas.openid.net/event/backchannel-logout": {}});
        state.token(json!({"sid": sid, "jti": id, "events": events}))
    }
}

impl Drop for Provider {
    /// Lets requests that wait go on, since their threads are waited for.
    fn drop(&mut self) {
        self.hold(false);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one request.
    fn serve(&self, mut stream: &TcpStream) {
        let Some((head, body)) = read(stream) else { return };
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut state = self.lock();
        if target == "/token" {
            state.waiting += 1;
            self.changed.notify_all();
            while state.is_held {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.waiting -= 1;
        }
        let (status, answer) = match target.as_str() {
            _ if state.is_away => ("503 Service Unavailable", Value::Null),
            "/.well-known/openid-configuration" => ("200 OK", state.document()),
            "/keys" => ("200 OK", state.key_set()),
            "/token" => state.tokens(&head, &body),
            "/userinfo" if head.contains("Bearer opaque") => ("200 OK", state.claims.clone()),
            _ => ("404 Not Found", Value::Null),
        };
        drop(state);
        let text = answer.to_string();
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}", text.len());
        let _ = stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n{text}").as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
    }
}

impl State {
    fn document(&self) -> Value {
        let url = |path: &str| format!("{}{path}", self.issuer);
        let mut document = json!({
            "issuer": self.issuer,
            "authorization_endpoint": url("/auth"),
            "token_endpoint": url("/token"),
            "jwks_uri": url("/keys"),
            "end_session_endpoint": url("/end"),
            "response_types_supported": ["code"],
        });
        if self.is_thin {
            document["userinfo_endpoint"] = url("/userinfo").into();
        }
        document
    }

    fn key_set(&self) -> Value {
        let keys = self.keys.iter().map(|pair| {
            let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
            json!({"kty": "EC", "crv": "P-256", "kid": name(pair), "x": encode(x), "y": encode(y)})
        });
        json!({"keys": keys.collect::<Vec<_>>()})
    }

    fn tokens(&mut self, head: &str, body: &str) -> (&'static str, Value) {
        const BAD: &str = "400 Bad Request";
        let basic = STANDARD.encode(format!("{}:{}", CLIENT.0, CLIENT.1.replace(':', "%3A")));
        if !head.to_ascii_lowercase().contains(&format!("authorization: basic {basic}").to_ascii_lowercase())
        {
            return ("401 Unauthorized", json!({"error": "invalid_client"}));
        }
        let refused = || (BAD, json!({"error": "invalid_grant"}));
        let pairs = pairs(body);
        let value = |name: &str| pairs.get(name).cloned().unwrap_or_default();
        let (nonce, sid) = match value("grant_type").as_str() {
            "authorization_code" => {
                let Some(sign_in) = self.codes.remove(&value("code")) else { return refused() };
                let challenge = encode(digest(&SHA256, value("code_verifier").as_bytes()));
                if challenge != sign_in.challenge || value("redirect_uri") != sign_in.redirect_uri {
                    return refused();
                }
                self.sign_ins += 1;
                (Some(sign_in.nonce), sign_in.sid)
            }
            "refresh_token" => {
                self.renewals += 1;
                match self.refresh_tokens.get_mut(&value("refresh_token")).map(Option::take) {
                    Some(Some(sid)) if !self.ended.contains(&sid) => (None, sid),
                    // A token that comes again is taken for stolen, and ends all sessions.
                    Some(None) => {
                        self.refresh_tokens.clear();
                        return refused();
                    }
                    _ => return refused(),
                }
            }
            _ => return (BAD, json!({"error": "unsupported_grant_type"})),
        };
        self.count += 1;
        let refresh_token = format!("refresh-{}", self.count);
        self.refresh_tokens.insert(refresh_token.clone(), Some(sid.clone()));
        let mut claims = if self.is_thin { json!({"sub": self.claims["sub"]}) } else { self.claims.clone() };
        claims["sid"] = sid.into();
        if let Some(nonce) = nonce {
            claims["nonce"] = nonce.into();
        }
        let answer = json!({
            "access_token": "opaque", "token_type": "Bearer", "expires_in": self.lifetime,
            "refresh_token": refresh_token, "id_token": self.token(claims),
        });
        ("200 OK", answer)
    }

    fn token(&self, mut claims: Value) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = now.saturating_add_signed(self.clock);
        for (name, value) in [
            ("iss", Value::from(self.issuer.as_str())),
            ("aud", CLIENT.0.into()),
            ("iat", now.into()),
            ("exp", (now + self.lifetime).into()),
        ] {
            if claims.get(name).is_none() {
                claims[name] = value;
            }
        }
        let pair = self.keys.last().expect("a key");
        let header = json!({"alg": "ES256", "kid": name(pair)});
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature");
        format!("{signed}.{}", encode(signature))
    }
}

/// Head and body of a request.
pub(crate) fn read(mut stream: &TcpStream) -> Option<(String, String)> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 8192]);
    loop {
        let length = stream.read(&mut piece).ok().filter(|&length| length > 0)?;
        bytes.extend_from_slice(&piece[..length]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let lines = head.lines().filter_map(|line| line.split_once(':'));
        let length = lines.clone().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length = length.map_or(0, |(_, value)| value.trim().parse().unwrap_or(0));
        if bytes.len() >= end + 4 + length {
            return Some((head, String::from_utf8_lossy(&bytes[end + 4..end + 4 + length]).into_owned()));
        }
    }
}

fn key() -> EcdsaKeyPair {
    EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key")
}

/// The name of a key: the beginning of its digest.
fn name(pair: &EcdsaKeyPair) -> String {
    encode(&digest(&SHA256, pair.public_key().as_ref()).as_ref()[..8])
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn pairs(text: &str) -> HashMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (unescaped(name), unescaped(value))).collect()
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        let escape = (*byte == b'%').then(|| after.get(..2)).flatten();
        match escape.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &after[2..];
            }
            None => bytes.push(if *byte == b'+' { b' ' } else { *byte }),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

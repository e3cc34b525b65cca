//! An issuer of JSON Web Tokens, with the keys that it publishes over HTTP.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::Canned;

/// An issuer on this machine. Its keys are P-256, and called `1`, `2` and so on.
pub struct Issuer {
    server: Canned,
    state: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The keys that are published, with their names; the last one signs.
    keys: Vec<(String, EcdsaKeyPair)>,
    made: usize,
    is_away: bool,
    is_held: bool,
    fetches: usize,
}

impl Default for Issuer {
    fn default() -> Self {
        Self::start()
    }
}

impl Issuer {
    /// Starts an issuer with one key.
    ///
    /// # Panics
    ///
    /// When no key can be made.
    pub fn start() -> Self {
        let first = State { keys: Vec::new(), made: 0, is_away: false, is_held: false, fetches: 0 };
        let state = Arc::new(Shared { state: Mutex::new(first), changed: Condvar::new() });
        let shared = Arc::clone(&state);
        let issuer = Self { server: Canned::choosing(move |_| shared.answer()), state };
        issuer.add_key();
        issuer
    }

    /// Its name, as tokens have it in `iss`.
    pub fn name(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// The URL of its keys.
    pub fn jwks(&self) -> String {
        format!("{}/keys", self.name())
    }

    /// Publishes another key, which signs from now on.
    ///
    /// # Panics
    ///
    /// When no key can be made.
    pub fn add_key(&self) {
        let mut state = self.state.lock();
        state.made += 1;
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        let name = state.made.to_string();
        state.keys.push((name, pair));
    }

    /// Publishes the newest key alone.
    pub fn drop_old_keys(&self) {
        let mut state = self.state.lock();
        let old = state.keys.len().saturating_sub(1);
        state.keys.drain(..old);
    }

    /// Answers with errors, or does so no more.
    pub fn set_away(&self, is_away: bool) {
        self.state.lock().is_away = is_away;
    }

    /// Keeps answers back, or lets them go.
    pub fn hold(&self, is_held: bool) {
        self.state.lock().is_held = is_held;
        self.state.changed.notify_all();
    }

    /// How often the keys were asked for.
    pub fn fetches(&self) -> usize {
        self.state.lock().fetches
    }

    /// A token with these claims, by the newest key. `iss` and `exp` are added where they are missing.
    pub fn token(&self, claims: &Value) -> String {
        let state = self.state.lock();
        let (name, _) = state.keys.last().expect("a key");
        let header = json!({"alg": "ES256", "typ": "JWT", "kid": name});
        drop(state);
        self.token_with(&header, claims)
    }

    /// A token with this header and these claims, by the newest key, whatever the header says.
    ///
    /// # Panics
    ///
    /// When the key cannot sign.
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        let mut claims = claims.clone();
        if let Some(members) = claims.as_object_mut() {
            members.entry("iss").or_insert_with(|| self.name().into());
            members.entry("exp").or_insert_with(|| (now() + 300).into());
        }
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let state = self.state.lock();
        let (_, pair) = state.keys.last().expect("a key");
        let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature");
        format!("{signed}.{}", encode(signature))
    }

    /// The keys that are published, as a JWK Set.
    pub fn key_set(&self) -> String {
        self.state.lock().key_set()
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        // An answer that is held would keep the server from ending.
        self.hold(false);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self) -> Vec<u8> {
        let mut state = self.lock();
        state.fetches += 1;
        while state.is_held {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (status, body) = if state.is_away {
            ("503 Service Unavailable", String::new())
        } else {
            ("200 OK", state.key_set())
        };
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nCache-Control: max-age=600\r\n", body.len());
        format!("{head}Content-Type: application/jwk-set+json\r\n\r\n{body}").into_bytes()
    }
}

impl State {
    fn key_set(&self) -> String {
        let key = |(name, pair): &(String, EcdsaKeyPair)| {
            let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
            json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": name, "x": encode(x), "y": encode(y)})
        };
        json!({"keys": self.keys.iter().map(key).collect::<Vec<_>>()}).to_string()
    }
}

/// Base64 as tokens have it.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The second since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

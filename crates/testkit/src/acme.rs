//! An authority that speaks ACME on this machine, over HTTP. It verifies signatures, nonces and challenges as
//! a real one does; its faults are the test's.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{CertificateParams, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm};
use serde_json::{Value, json};
use x509_parser::prelude::{FromDer, X509CertificationRequest};

use crate::accepting::Accepting;
use crate::provider::read;
use crate::{Authority, Connection, TlsClient};

/// An authority with one account.
pub struct AcmeServer {
    shared: Arc<Shared>,
    accepting: Accepting,
}

struct Shared {
    authority: Authority,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    base: String,
    /// Public key of the account, and its thumbprint.
    account: Option<(Vec<u8>, String)>,
    accounts: usize,
    nonces: BTreeSet<String>,
    made: usize,
    orders: Vec<Order>,
    /// Requests so far.
    requests: usize,
    /// Each request with this number refuses its nonce; 0 for none.
    bad_nonce_each: usize,
    /// Where hosts are served: HTTP and HTTPS.
    looks_at: Option<(SocketAddr, SocketAddr)>,
    offered: Vec<&'static str>,
    /// Paths that are not answered for now, by their beginning, and the requests that wait.
    held: Option<String>,
    waiting: usize,
    is_busy: bool,
    /// When certificates should be renewed, as text.
    window: Option<(String, String)>,
    /// Key of an account outside of ACME that accounts have to be bound to.
    binding: Option<(String, Vec<u8>)>,
}

#[derive(Clone)]
struct Order {
    host: String,
    status: &'static str,
    challenge: &'static str,
    error: Option<String>,
    chain: String,
    replaces: Option<String>,
    /// The kind of challenge that has been looked at.
    looked: Option<&'static str>,
}

/// The key of a request for a certificate.
struct RequestedKey(Vec<u8>);

impl PublicKeyData for RequestedKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// An answer: status, headers, and JSON or text.
struct Answer {
    status: &'static str,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Default for AcmeServer {
    fn default() -> Self {
        Self::start()
    }
}

impl AcmeServer {
    /// Starts an authority.
    pub fn start() -> Self {
        let offered = vec!["http-01", "tls-alpn-01", "dns-01"];
        let state = State { offered, ..State::default() };
        let authority = Authority::new("ACME test authority");
        let shared = Shared { authority, state: Mutex::new(state), changed: Condvar::new() };
        let shared = Arc::new(shared);
        let for_thread = Arc::clone(&shared);
        let accepting =
            Accepting::start(IpAddr::V4(Ipv4Addr::LOCALHOST), move |stream| for_thread.serve(stream));
        shared.lock().base = format!("http://{}", accepting.address());
        Self { shared, accepting }
    }

    /// The URL of its directory.
    pub fn directory(&self) -> String {
        format!("http://{}/directory", self.accepting.address())
    }

    /// The authority that signs, for clients that verify.
    pub fn authority(&self) -> &Authority {
        &self.shared.authority
    }

    /// Looks at these addresses of HTTP and HTTPS, whatever the name of a host is.
    pub fn look_at(&self, http: SocketAddr, https: SocketAddr) {
        self.shared.lock().looks_at = Some((http, https));
        self.shared.changed.notify_all();
    }

    /// Offers these kinds of challenges.
    pub fn offer(&self, kinds: &[&'static str]) {
        self.shared.lock().offered = kinds.to_vec();
    }

    /// Refuses the nonce of each request with such a number.
    pub fn refuse_nonces(&self, each: usize) {
        self.shared.lock().bad_nonce_each = each;
    }

    /// Answers orders with 503, or does so no more.
    pub fn set_busy(&self, is_busy: bool) {
        self.shared.lock().is_busy = is_busy;
    }

    /// Suggests to renew all certificates between these times, written as in RFC 3339.
    pub fn suggest_renewal(&self, start: &str, end: &str) {
        self.shared.lock().window = Some((start.to_owned(), end.to_owned()));
    }

    /// Makes accounts only for clients that know this key.
    pub fn require_binding(&self, id: &str, key: &[u8]) {
        self.shared.lock().binding = Some((id.to_owned(), key.to_vec()));
    }

    /// Keeps answers for paths with this beginning back, or none.
    pub fn hold(&self, path: Option<&str>) {
        self.shared.lock().held = path.map(str::to_owned);
        self.shared.changed.notify_all();
    }

    /// Waits until a request is held.
    pub fn await_held(&self) {
        self.await_that("a request is held", |state| state.waiting > 0);
    }

    /// Waits until a host has so many certificates.
    pub fn await_issued(&self, host: &str, number: usize) {
        self.await_that(&format!("{host} has {number} certificates"), |state| state.issued(host) >= number);
    }

    /// Waits until an order of a host has failed.
    pub fn await_refused(&self, host: &str) {
        self.await_that(&format!("an order of {host} fails"), |state| {
            state.orders.iter().any(|order| order.host == host && order.status == "invalid")
        });
    }

    /// The number of orders of a host.
    pub fn orders(&self, host: &str) -> usize {
        self.shared.lock().orders.iter().filter(|order| order.host == host).count()
    }

    /// The kinds of challenges that were looked at, and whether each order replaces a certificate, for the
    /// orders of a host.
    pub fn looked_at(&self, host: &str) -> Vec<(Option<&'static str>, bool)> {
        let state = self.shared.lock();
        let orders = state.orders.iter().filter(|order| order.host == host);
        orders.map(|order| (order.looked, order.replaces.is_some())).collect()
    }

    /// The number of accounts that were made.
    pub fn accounts(&self) -> usize {
        self.shared.lock().accounts
    }

    fn await_that(&self, what: &str, holds: impl Fn(&State) -> bool) {
        let mut state = self.shared.lock();
        while !holds(&state) {
            let waited = self.shared.changed.wait_timeout(state, crate::PATIENCE);
            let (next, time) = waited.unwrap_or_else(PoisonError::into_inner);
            assert!(!time.timed_out(), "it does not come to that: {what}");
            state = next;
        }
    }
}

impl Drop for AcmeServer {
    /// Lets requests that wait go on, since their threads are waited for.
    fn drop(&mut self) {
        self.hold(None);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one request, and looks at a challenge if that was asked for.
    fn serve(&self, stream: &TcpStream) {
        let Some((head, body)) = read(stream) else { return };
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().to_owned());
        let mut state = self.lock();
        let is_held = |state: &State| state.held.as_ref().is_some_and(|held| path.starts_with(held.as_str()));
        if is_held(&state) {
            state.waiting += 1;
            self.changed.notify_all();
            while is_held(&state) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.waiting -= 1;
        }
        let answer =
            if method == "POST" { state.signed(&path, &body, &self.authority) } else { state.plain(&path) };
        let nonce = state.nonce();
        drop(state);
        answer.write(stream, &nonce);
        if let Some(number) = path.strip_prefix("/challenge/") {
            self.look(number);
        }
        self.changed.notify_all();
    }

    /// Looks at the host of a challenge.
    fn look(&self, path: &str) {
        let (kind, number) = path.split_once('/').unwrap_or_default();
        let number: usize = number.parse().unwrap_or_default();
        let mut state = self.lock();
        while state.looks_at.is_none() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let Some((http, https)) = state.looks_at else { return };
        let Some(host) = state.orders.get(number).map(|order| order.host.clone()) else { return };
        let thumbprint = state.account.as_ref().map(|(_, thumbprint)| thumbprint.clone()).unwrap_or_default();
        drop(state);
        let expected = format!("{}.{thumbprint}", token(number));
        let (kind, found) = match kind {
            "http-01" => ("http-01", look_by_http(http, &host, number, &expected)),
            _ => ("tls-alpn-01", look_by_handshake(https, &host, &expected)),
        };
        let mut state = self.lock();
        let order = &mut state.orders[number];
        if order.status != "pending" {
            return;
        }
        order.looked = Some(kind);
        match found {
            Ok(()) => (order.status, order.challenge) = ("ready", "valid"),
            Err(why) => {
                (order.status, order.challenge) = ("invalid", "invalid");
                order.error = Some(why);
            }
        }
    }
}

fn look_by_http(address: SocketAddr, host: &str, number: usize, expected: &str) -> Result<(), String> {
    let target = format!("/.well-known/acme-challenge/{}", token(number));
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let response = Connection::to(address).ask(&request);
    let body = String::from_utf8_lossy(&response.body).into_owned();
    if response.status == 200 && body == expected {
        Ok(())
    } else {
        Err(format!("{} {body:?} in place of the key authorization", response.status))
    }
}

fn look_by_handshake(address: SocketAddr, host: &str, expected: &str) -> Result<(), String> {
    let client = TlsClient::new(host).alpn(&["acme-tls/1"]).only_13().blind();
    let connection = client.try_connect(address).map_err(|error| error.to_string())?;
    let info = connection.tls_info();
    let leaf = info.peer_chain.first().ok_or("no certificate")?;
    // The content of the extension: an octet string with the digest (RFC 8737 section 3).
    let digest = digest(&SHA256, expected.as_bytes());
    let value = [&[4, 32], digest.as_ref()].concat();
    let is_for = leaf.windows(host.len()).any(|window| window == host.as_bytes());
    if info.alpn.as_deref() == Some("acme-tls/1") && is_for && leaf.windows(34).any(|window| window == value)
    {
        Ok(())
    } else {
        Err("the certificate does not answer the challenge".to_owned())
    }
}

impl State {
    fn nonce(&mut self) -> String {
        self.made += 1;
        let nonce = format!("nonce-{}", self.made);
        self.nonces.insert(nonce.clone());
        nonce
    }

    fn issued(&self, host: &str) -> usize {
        self.orders.iter().filter(|order| order.host == host && !order.chain.is_empty()).count()
    }

    fn plain(&self, path: &str) -> Answer {
        let url = |path: &str| format!("{}{path}", self.base);
        match (path, &self.window) {
            ("/directory", window) => {
                let mut directory = json!({
                    "newNonce": url("/nonce"), "newAccount": url("/account"), "newOrder": url("/order"),
                });
                if window.is_some() {
                    directory["renewalInfo"] = url("/renewal").into();
                }
                Answer::json("200 OK", &directory)
            }
            ("/nonce", _) => Answer::json("200 OK", &Value::Null),
            (path, Some((start, end))) if path.starts_with("/renewal/") => {
                let window = json!({"suggestedWindow": {"start": start, "end": end}});
                Answer::json("200 OK", &window).with("Retry-After", "21600".to_owned())
            }
            _ => Answer::problem("404 Not Found", "malformed", "there is no such path"),
        }
    }

    fn signed(&mut self, path: &str, body: &str, authority: &Authority) -> Answer {
        self.requests += 1;
        let (header, payload) = match self.verified(body) {
            Ok(verified) => verified,
            Err(why) => return Answer::problem("401 Unauthorized", "unauthorized", &why),
        };
        let nonce = header["nonce"].as_str().unwrap_or_default();
        let is_refused = self.bad_nonce_each > 0 && self.requests.is_multiple_of(self.bad_nonce_each);
        if !self.nonces.remove(nonce) || is_refused {
            return Answer::problem("400 Bad Request", "badNonce", "another nonce, please");
        }
        let mut parts = path.trim_start_matches('/').split('/');
        let what = parts.next().unwrap_or_default();
        let number: usize = parts.next_back().and_then(|text| text.parse().ok()).unwrap_or_default();
        match what {
            "account" => self.make_account(&header, &payload),
            "order" if path == "/order" => self.make_order(&payload),
            _ if number >= self.orders.len() => {
                Answer::problem("404 Not Found", "malformed", "no such order")
            }
            "order" => Answer::json("200 OK", &self.order(number)),
            "authorization" => Answer::json("200 OK", &self.authorization(number)),
            "challenge" => {
                let kind = if path.contains("http-01") { "http-01" } else { "tls-alpn-01" };
                self.orders[number].challenge = "processing";
                Answer::json("200 OK", &self.challenge(number, kind))
            }
            "finalize" => self.finalize(number, &payload, authority),
            "certificate" => {
                Answer { status: "200 OK", headers: Vec::new(), body: self.orders[number].chain.clone() }
            }
            _ => Answer::problem("404 Not Found", "malformed", "there is no such path"),
        }
    }

    /// The header and the payload of a signed request, after its signature was verified.
    fn verified(&self, body: &str) -> Result<(Value, Value), String> {
        let body: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        let header: Value = decoded(text("protected"))?;
        let key = match (&header["jwk"], &self.account) {
            (Value::Object(key), _) => point(key)?,
            (_, Some((key, _))) => key.clone(),
            _ => return Err("there is no account".to_owned()),
        };
        let signed = format!("{}.{}", text("protected"), text("payload"));
        let signature = URL_SAFE_NO_PAD.decode(text("signature")).map_err(|error| error.to_string())?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key);
        key.verify(signed.as_bytes(), &signature).map_err(|_| "the signature is wrong".to_owned())?;
        let payload = if text("payload").is_empty() { Value::Null } else { decoded(text("payload"))? };
        Ok((header, payload))
    }

    fn make_account(&mut self, header: &Value, payload: &Value) -> Answer {
        let Some(key) = header["jwk"].as_object() else {
            return Answer::json("200 OK", &json!({"status": "valid"}));
        };
        if payload["termsOfServiceAgreed"] != true {
            return Answer::problem("403 Forbidden", "userActionRequired", "agree to the terms");
        }
        if let Some((id, secret)) = &self.binding
            && !is_bound(&payload["externalAccountBinding"], id, secret)
        {
            return Answer::problem("403 Forbidden", "externalAccountRequired", "the account is not bound");
        }
        let Ok(point) = point(key) else {
            return Answer::problem("400 Bad Request", "badPublicKey", "no key");
        };
        let text = |name: &str| key[name].as_str().unwrap_or_default();
        let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#, text("x"), text("y"));
        self.account = Some((point, URL_SAFE_NO_PAD.encode(digest(&SHA256, canonical.as_bytes()))));
        self.accounts += 1;
        let location = format!("{}/account/{}", self.base, self.accounts);
        Answer::json("201 Created", &json!({"status": "valid"})).with("Location", location)
    }

    fn make_order(&mut self, payload: &Value) -> Answer {
        if self.is_busy {
            let problem = Answer::problem("503 Service Unavailable", "serverInternal", "too many orders");
            return problem.with("Retry-After", "120".to_owned());
        }
        let host = payload["identifiers"][0]["value"].as_str().unwrap_or_default().to_owned();
        let replaces = payload["replaces"].as_str().map(str::to_owned);
        self.orders.push(Order {
            host,
            status: "pending",
            challenge: "pending",
            error: None,
            chain: String::new(),
            replaces,
            looked: None,
        });
        let number = self.orders.len() - 1;
        let location = format!("{}/order/{number}", self.base);
        Answer::json("201 Created", &self.order(number)).with("Location", location)
    }

    fn order(&self, number: usize) -> Value {
        let (order, base) = (&self.orders[number], &self.base);
        let mut told = json!({
            "status": order.status,
            "identifiers": [{"type": "dns", "value": order.host}],
            "authorizations": [format!("{base}/authorization/{number}")],
            "finalize": format!("{base}/finalize/{number}"),
        });
        if !order.chain.is_empty() {
            told["certificate"] = format!("{base}/certificate/{number}").into();
        }
        if let Some(replaces) = &order.replaces {
            told["replaces"] = replaces.as_str().into();
        }
        told
    }

    fn authorization(&self, number: usize) -> Value {
        let order = &self.orders[number];
        let status = match order.challenge {
            "processing" => "pending",
            other => other,
        };
        let challenges: Vec<Value> = self.offered.iter().map(|kind| self.challenge(number, kind)).collect();
        json!({
            "status": status,
            "identifier": {"type": "dns", "value": order.host},
            "challenges": challenges,
        })
    }

    fn challenge(&self, number: usize, kind: &str) -> Value {
        let order = &self.orders[number];
        let url = format!("{}/challenge/{kind}/{number}", self.base);
        let mut told = json!({"type": kind, "url": url, "token": token(number), "status": order.challenge});
        if let Some(error) = &order.error {
            told["error"] = json!({"type": "urn:ietf:params:acme:error:unauthorized", "detail": error});
        }
        told
    }

    fn finalize(&mut self, number: usize, payload: &Value, authority: &Authority) -> Answer {
        let order = &mut self.orders[number];
        if order.status != "ready" {
            return Answer::problem("403 Forbidden", "orderNotReady", "the order is not ready");
        }
        let request = URL_SAFE_NO_PAD.decode(payload["csr"].as_str().unwrap_or_default()).unwrap_or_default();
        let Ok((_, request)) = X509CertificationRequest::from_der(&request) else {
            return Answer::problem("400 Bad Request", "badCSR", "no request");
        };
        let key = request.certification_request_info.subject_pki.subject_public_key.data.to_vec();
        let params = CertificateParams::new(vec![order.host.clone()]).expect("a name");
        order.chain = authority.sign_key(params, &RequestedKey(key));
        order.status = "valid";
        Answer::json("200 OK", &self.order(number))
    }
}

fn token(number: usize) -> String {
    format!("token_{number}-of-the-test")
}

fn decoded(text: &str) -> Result<Value, String> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| error.to_string())?;
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

/// The point of a JSON Web Key on P-256.
fn point(key: &serde_json::Map<String, Value>) -> Result<Vec<u8>, String> {
    let coordinate = |name: &str| {
        let text = key.get(name).and_then(Value::as_str).unwrap_or_default();
        URL_SAFE_NO_PAD.decode(text).map_err(|error| error.to_string())
    };
    Ok([vec![4], coordinate("x")?, coordinate("y")?].concat())
}

/// Whether an account is bound to this key (RFC 8555 section 7.3.4).
fn is_bound(binding: &Value, id: &str, secret: &[u8]) -> bool {
    let text = |name: &str| binding[name].as_str().unwrap_or_default();
    let header = decoded(text("protected")).unwrap_or_default();
    let signed = format!("{}.{}", text("protected"), text("payload"));
    let signature = URL_SAFE_NO_PAD.decode(text("signature")).unwrap_or_default();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    header["kid"] == id && hmac::verify(&key, signed.as_bytes(), &signature).is_ok()
}

impl Answer {
    fn json(status: &'static str, value: &Value) -> Self {
        let body = if value.is_null() { String::new() } else { value.to_string() };
        Self { status, headers: Vec::new(), body }
    }

    fn problem(status: &'static str, kind: &str, detail: &str) -> Self {
        let kind = format!("urn:ietf:params:acme:error:{kind}");
        Self::json(status, &json!({"type": kind, "detail": detail}))
    }

    fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    fn write(&self, mut stream: &TcpStream, nonce: &str) {
        let mut lines =
            BTreeMap::from([("Replay-Nonce", nonce.to_owned()), ("Connection", "close".to_owned())]);
        lines.insert("Content-Length", self.body.len().to_string());
        lines.extend(self.headers.iter().cloned());
        let lines: Vec<String> = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let lines = lines.concat();
        let text = format!("HTTP/1.1 {}\r\n{lines}\r\n{}", self.status, self.body);
        // The client may have been stopped meanwhile.
        let _ = stream.write_all(text.as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
    }
}

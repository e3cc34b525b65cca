//! Measures what a session costs: one whose cookie is sealed or opened, and one whose cookie is repeated.
//!
//! Usage: `cargo run --profile quick --example sessions`.
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clients::Sessions;
use identity::oidc::seal::{Keys, Place};
use identity::oidc::session::Session;
use identity::oidc::tokens::Granted;

const NOW: u64 = 1_800_000_000;
const HERE: Place<'_> = Place { purpose: "session", provider: &[7; 32], host: b"shop.test", name: "session" };

fn per_call(count: usize, mut call: impl FnMut(usize)) -> Duration {
    let begin = Instant::now();
    (0..count).for_each(&mut call);
    begin.elapsed() / count as u32
}

/// A session as an identity provider makes it, with a refresh token.
fn session(number: usize) -> Session {
    let claims = format!(
        r#"{{"sub":"user-{number}","email":"user-{number}@example.test","email_verified":true,"sid":"1f0c9d64",
        "groups":["staff","reports","admin"],"preferred_username":"user-{number}",
        "realm_access":{{"roles":["offline_access","viewer","editor"]}}}}"#
    );
    let granted = Granted {
        claims: Some(identity::json::object(claims.as_bytes()).expect("an object")),
        refresh_token: Some("r".repeat(700)),
        id_token: Some("i".repeat(900)),
        at: NOW,
        seconds: 300,
    };
    Session::begin(&granted, &[])
}

fn main() {
    let keys = Keys::new([("one", vec![b'k'; 32])].into_iter()).expect("a key");
    let all: Vec<_> = (0..10_000).map(session).collect();
    let cookies: Vec<_> = all.iter().map(|one| keys.seal(HERE, NOW, &one.encode())).collect();
    println!("a cookie has {} bytes", cookies[0].len());
    let time = per_call(all.len(), |at| drop(black_box(keys.seal(HERE, NOW, &all[at].encode()))));
    println!("sealed     {time:?}");
    let time = per_call(all.len(), |at| {
        let opened = keys.open(HERE, NOW, cookies[at].as_bytes());
        let (_, content) = opened.expect("it is our own");
        black_box(Session::decode(&content));
    });
    println!("opened     {time:?}");
    let forged: Vec<_> =
        cookies.iter().map(|cookie| format!("{}AAAA", &cookie[..cookie.len() - 4])).collect();
    let time = per_call(all.len(), |at| drop(black_box(keys.open(HERE, NOW, forged[at].as_bytes()))));
    println!("forged     {time:?}");
    for number in [1, 5_000] {
        let sessions = Sessions::default();
        for (cookie, one) in cookies.iter().zip(&all).take(number) {
            sessions.put(cookie.as_bytes(), &Arc::new(one.clone()));
        }
        let mut found = 0;
        let time = per_call(1_000_000, |at| {
            // Not the same session again while it is in the processor's cache.
            let key = cookies[at.wrapping_mul(7919) % number].as_bytes();
            found += usize::from(black_box(sessions.get(key)).is_some());
        });
        println!("repeated   {time:?}, one of {number}; {} % were found", found / 10_000);
    }
}

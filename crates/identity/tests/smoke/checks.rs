//! Properties that must hold for every token, key set and rule. The fuzz target and the smoke test call the
//! same function.

use std::time::Duration;

use identity::jwk::{KeySet, Origin};
use identity::{Algorithm, Expression, Rules, Terms, Token, json};

/// Reads an input as everything that comes from elsewhere.
pub(crate) fn token(input: &[u8]) {
    let keys = KeySet::parse(input, Origin::Public);
    if let Ok(keys) = &keys {
        let algorithms = || keys.keys().iter().flat_map(identity::jwk::Key::algorithms);
        assert!(algorithms().next().is_some(), "a key without an algorithm");
        assert!(!algorithms().any(Algorithm::is_symmetric), "a secret that anybody may read");
    }
    if let Ok(token) = Token::parse(input) {
        let issuer = token.issuer().unwrap_or_default().to_owned();
        let terms = Terms { issuer, algorithms: Algorithm::ALL.into_iter().collect(), ..Terms::default() };
        let now = Duration::from_secs(1_800_000_000);
        if let Ok(until) = token.check(&terms, now) {
            assert!(until > now, "a token that is over");
        }
        if let Ok(keys) = &keys {
            assert!(token.verify(keys).is_err(), "an input is not both token and keys");
        }
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    let claims = json::object(br#"{"a": 1, "b": ["x"], "scope": "y z", "c": {"d": true}}"#).expect("claims");
    if let Ok(expression) = Expression::parse(text) {
        let negated = Expression::parse(&format!("not ({text})"));
        // Its own bounds may be exceeded by what was added.
        if let Ok(negated) = negated {
            assert_ne!(expression.holds(&claims), negated.holds(&claims), "{text}");
        }
    }
    if let Ok(rules) = Rules::parse(text) {
        let _ = rules.allow(b"GET", b"/a/b", &claims);
    }
}

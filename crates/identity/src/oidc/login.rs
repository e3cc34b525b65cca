//! A sign-in: where the client is sent, what is kept of it meanwhile, and what it comes back with.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::Seconds;
use super::form;

/// The time that a client has to sign in at the provider.
pub const TIME_MAX: Seconds = 900;

/// The longest target to which a client returns; with a longer one, it returns to `/`.
pub const TARGET_BYTES_MAX: usize = 2000;

/// The longest code or state that a client may come back with.
const PARAMETER_BYTES_MAX: usize = 4096;

/// A sign-in in progress. The client keeps it in a sealed cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Ties the answer of the provider to this sign-in.
    pub state: String,
    /// Ties the ID token to this sign-in.
    pub nonce: String,
    /// The secret behind the code challenge (PKCE, RFC 7636).
    pub verifier: String,
    /// Where the client returns to: a path of the same host, with its query.
    pub target: String,
}

impl Login {
    /// A new sign-in of a client that has asked for `target`.
    ///
    /// # Panics
    ///
    /// If the system has no randomness.
    pub fn begin(target: &[u8]) -> Self {
        let target = own_target(target).unwrap_or("/").to_owned();
        Self { state: random(), nonce: random(), verifier: random(), target }
    }

    /// The code challenge by method S256.
    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.verifier.as_bytes()))
    }

    /// The form that is sealed.
    pub fn encode(&self) -> Vec<u8> {
        [&self.state, &self.nonce, &self.verifier, &self.target].map(String::as_str).join("\n").into_bytes()
    }

    /// Reads what [`encode`](Self::encode) has written.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.split('\n').map(str::to_owned);
        let mut next = || lines.next();
        let login = Self { state: next()?, nonce: next()?, verifier: next()?, target: next()? };
        (next().is_none() && own_target(login.target.as_bytes()).is_some()).then_some(login)
    }

    /// The URL at the provider to which the client is sent.
    pub fn url(&self, endpoint: &str, asked: &Asked<'_>) -> String {
        let challenge = self.challenge();
        let mut pairs = vec![
            ("response_type", "code"),
            ("client_id", asked.client_id),
            ("redirect_uri", asked.redirect_uri),
            ("scope", asked.scopes),
            ("state", &self.state),
            ("nonce", &self.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        pairs.extend(asked.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        form::with_query(endpoint, &pairs)
    }
}

/// A request to the provider to sign a user in.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The client's identifier at the provider.
    pub client_id: &'a str,
    /// The URL to which the provider sends the user back.
    pub redirect_uri: &'a str,
    /// The scopes, separated by spaces.
    pub scopes: &'a str,
    /// More parameters, such as `prompt`.
    pub parameters: &'a [(String, String)],
}

/// Parameters of the authorization request that are ours, so that nobody can configure them.
pub const OWN_PARAMETERS: &[&str] = &[
    "response_type",
    "response_mode",
    "client_id",
    "client_secret",
    "redirect_uri",
    "scope",
    "state",
    "nonce",
    "code_challenge",
    "code_challenge_method",
    "request",
    "request_uri",
];

/// The parameters that a client comes back with from the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    /// The state of the sign-in.
    pub state: String,
    /// The code, or the provider's error.
    pub outcome: Result<String, ProviderError>,
    /// The issuer that says it has answered (RFC 9207).
    pub issuer: Option<String>,
}

/// An error that the provider sends the user back with (RFC 6749 section 4.1.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    /// The code of the error, such as `access_denied`.
    pub error: String,
    /// A text for people.
    pub description: Option<String>,
}

impl Callback {
    /// Reads the query of the callback. Each parameter may come once.
    ///
    /// # Errors
    ///
    /// When the query cannot be read, or has no state, or neither a code nor an error.
    pub fn parse(query: &[u8]) -> Result<Self, &'static str> {
        let pairs = form::parse(query)?;
        let one = |name: &str| {
            let mut values = pairs.iter().filter(|(known, _)| known == name).map(|(_, value)| value);
            match (values.next(), values.next()) {
                (_, Some(_)) => Err("a parameter comes twice"),
                (Some(value), None) if value.len() > PARAMETER_BYTES_MAX => Err("a parameter is too long"),
                (value, None) => Ok(value.filter(|value| !value.is_empty()).cloned()),
            }
        };
        let state = one("state")?.ok_or("there is no state")?;
        let code = one("code")?;
        let error = one("error")?;
        let description = one("error_description")?;
        let outcome = match (code, error) {
            (_, Some(error)) => Err(ProviderError { error, description }),
            (Some(code), None) => Ok(code),
            (None, None) => return Err("there is neither a code nor an error"),
        };
        Ok(Self { state, outcome, issuer: one("iss")? })
    }
}

/// A target of the same host, if it is one: a path, which no browser takes for another host, with its query.
pub fn own_target(target: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(target).ok()?;
    let is_visible = text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_path = text.starts_with('/') && !matches!(text.as_bytes().get(1), Some(b'/' | b'\\'));
    (is_path && is_visible && text.len() <= TARGET_BYTES_MAX && !text.contains('\\')).then_some(text)
}

fn random() -> String {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_target_leads_to_another_host() {
        for (target, expected) in [
            ("/", Some("/")),
            ("/a?b=//c", Some("/a?b=//c")),
            ("/a//b", Some("/a//b")),
            ("//evil.test/", None),
            ("/\\evil.test/", None),
            ("/a\\b", None),
            ("\\\\evil.test", None),
            ("https://evil.test/", None),
            ("javascript:alert(1)", None),
            ("/a\r\nSet-Cookie: b", None),
            ("/\t/evil.test", None),
            ("/\u{e4}", None),
            ("", None),
        ] {
            assert_eq!(own_target(target.as_bytes()), expected, "{target:?}");
            assert_eq!(Login::begin(target.as_bytes()).target, expected.unwrap_or("/"), "{target:?}");
        }
        assert_eq!(own_target(format!("/{}", "a".repeat(TARGET_BYTES_MAX)).as_bytes()), None);
    }

    #[test]
    fn a_sign_in_comes_back_as_it_was() {
        let login = Login::begin(b"/a?b");
        assert_eq!(Login::decode(&login.encode()), Some(login.clone()));
        let elsewhere = Login { target: "//evil.test".to_owned(), ..login.clone() };
        assert_eq!(Login::decode(&elsewhere.encode()), None);
        let other = Login::begin(b"/a?b");
        assert!(other.state != login.state && other.nonce != login.nonce && other.verifier != login.verifier);
        assert_eq!(login.verifier.len(), 43, "RFC 7636 section 4.1");
    }

    #[test]
    fn the_challenge_is_that_of_rfc_7636() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let login = Login { verifier, ..Login::begin(b"/") };
        assert_eq!(login.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn the_url_has_all_that_the_flow_needs() {
        let login = Login::begin(b"/");
        let asked = Asked {
            client_id: "client",
            redirect_uri: "https://a.test/oauth2/callback",
            scopes: "openid email",
            parameters: &[("prompt".to_owned(), "login".to_owned())],
        };
        let url = login.url("https://issuer.test/auth?tenant=1", &asked);
        let query = url.strip_prefix("https://issuer.test/auth?").unwrap();
        let pairs = form::parse(query.as_bytes()).unwrap();
        let value = |name: &str| pairs.iter().find(|(known, _)| known == name).unwrap().1.clone();
        assert_eq!((value("tenant"), value("prompt")), ("1".to_owned(), "login".to_owned()));
        assert_eq!(value("redirect_uri"), "https://a.test/oauth2/callback");
        assert_eq!((value("state"), value("nonce")), (login.state.clone(), login.nonce.clone()));
        assert_eq!((value("code_challenge"), value("scope")), (login.challenge(), "openid email".to_owned()));
        assert!(!url.contains(&login.verifier));
    }

    #[test]
    fn callbacks_are_read_strictly() {
        let code = Callback::parse(b"code=c&state=s&session_state=x&iss=https%3A%2F%2Fi.test").unwrap();
        assert_eq!((code.outcome, code.state.as_str()), (Ok("c".to_owned()), "s"));
        assert_eq!(code.issuer.as_deref(), Some("https://i.test"));
        let error = Callback::parse(b"error=access_denied&error_description=No+way&state=s").unwrap();
        let denied =
            ProviderError { error: "access_denied".to_owned(), description: Some("No way".to_owned()) };
        assert_eq!(error.outcome, Err(denied));
        let long = format!("state=s&code={}", "a".repeat(PARAMETER_BYTES_MAX + 1));
        for bad in [
            "",
            "code=c",
            "state=s",
            "state=s&state=s&code=c",
            "state=s&code=c&code=d",
            "state=&code=c",
            &long,
        ] {
            assert!(Callback::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}

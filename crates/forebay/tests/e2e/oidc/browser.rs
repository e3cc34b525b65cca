//! As much of a browser as signs in.

use std::collections::BTreeMap;

use identity::oidc::cookies::Names;
use identity::oidc::seal::{Keys, Place};
use identity::oidc::session::Session;
use testkit::{CLIENT, Forebay, Provider, Response};

/// The key of the cookies.
pub(super) const KEY: &str = "0123456789abcdef0123456789abcdef";

/// The header that a browser sends for a page.
pub(super) const HTML: &str = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";

pub(super) struct Browser<'f> {
    forebay: &'f Forebay,
    /// The names of the cookies of a client of an issuer.
    names: fn(&str, &str) -> Names,
    host: String,
    cookies: BTreeMap<String, String>,
    /// All values of `Set-Cookie`.
    set: Vec<String>,
}

impl<'f> Browser<'f> {
    pub(super) fn new(forebay: &'f Forebay, host: &str) -> Self {
        Self { forebay, names: Names::new, host: host.to_owned(), cookies: BTreeMap::new(), set: Vec::new() }
    }

    /// One for the console.
    pub(super) fn of_console(forebay: &'f Forebay, host: &str) -> Self {
        Self { names: Names::of_console, ..Self::new(forebay, host) }
    }

    /// Another one with the same cookies, whose connections reach another replica.
    pub(super) fn with(&self, forebay: &'f Forebay) -> Self {
        Self { forebay, ..self.at(&self.host) }
    }

    /// Another one with the same cookies, at another host.
    pub(super) fn at(&self, host: &str) -> Self {
        Self { host: host.to_owned(), cookies: self.cookies.clone(), set: Vec::new(), ..*self }
    }

    pub(super) fn get(&mut self, target: &str, fields: &str) -> Response {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: {}\r\n{}{fields}\r\n", self.host, self.cookie_line());
        let told = self.forebay.client().ask(&request);
        self.keep(&told);
        told
    }

    /// Goes to an absolute URL of the host.
    pub(super) fn follow(&mut self, url: &str) -> Response {
        let target = url.strip_prefix(&format!("http://{}", self.host));
        self.get(target.unwrap_or_else(|| panic!("{url} is of another host")), HTML)
    }

    pub(super) fn post(&mut self, target: &str, body: &str) -> Response {
        let head = format!("POST {target} HTTP/1.1\r\nHost: {}\r\n{}", self.host, self.cookie_line());
        let request = format!(
            "{head}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let told = self.forebay.client().ask(&request);
        self.keep(&told);
        told
    }

    /// Asks for a page, and signs in for it.
    pub(super) fn sign_in(&mut self, provider: &Provider, target: &str) {
        let told = self.try_sign_in(provider, target);
        assert_eq!((told.status, told.header("location").as_deref()), (302, Some(target)), "{told:?}");
    }

    pub(super) fn try_sign_in(&mut self, provider: &Provider, target: &str) -> Response {
        let told = self.get(target, HTML);
        assert_eq!(told.status, 302, "{told:?}");
        let back = provider.sign_in(&told.header("location").unwrap());
        self.follow(&back)
    }

    pub(super) fn set_cookie(&mut self, name: &str, value: &str) {
        self.cookies.insert(name.to_owned(), value.to_owned());
    }

    pub(super) fn cookies(&self) -> &BTreeMap<String, String> {
        &self.cookies
    }

    pub(super) fn set_cookies(&self) -> &[String] {
        &self.set
    }

    pub(super) fn cookie_line(&self) -> String {
        let pairs: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() { String::new() } else { format!("Cookie: {}\r\n", pairs.join("; ")) }
    }

    /// The session in the cookie.
    pub(super) fn session(&self, provider: &Provider) -> Option<Session> {
        let (issuer, value) = (provider.issuer(), self.cookies.get(&self.names_of(provider).session)?);
        let identity = identity(&issuer);
        let place = self.place(&identity, provider);
        let sealed = value.strip_prefix("1.")?;
        let name = place.1.clone();
        let place = Place { name: &name, ..place.0 };
        Session::decode(&keys().open(place, u64::MAX / 2, sealed.as_bytes())?.1)
    }

    /// Makes the session so many seconds older, as if the time had passed.
    pub(super) fn age(&mut self, provider: &Provider, seconds: u64) {
        let mut session = self.session(provider).expect("there is a session");
        session.begun -= seconds;
        session.renewed -= seconds;
        session.ends = session.ends.map(|ends| ends - seconds);
        let issuer = provider.issuer();
        let identity = identity(&issuer);
        let (place, name) = self.place(&identity, provider);
        let place = Place { name: &name, ..place };
        let sealed = keys().seal(place, session.renewed, &session.encode());
        self.cookies.insert(name.clone(), format!("1.{sealed}"));
    }

    fn place<'p>(&'p self, identity: &'p [u8], provider: &Provider) -> (Place<'p>, String) {
        let place = Place { purpose: "session", provider: identity, host: self.host.as_bytes(), name: "" };
        (place, self.names_of(provider).session)
    }

    fn names_of(&self, provider: &Provider) -> Names {
        (self.names)(&provider.issuer(), CLIENT.0)
    }

    fn keep(&mut self, told: &Response) {
        for (_, value) in told.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            let (name, rest) = value.split_once('=').expect("a cookie");
            let (content, attributes) = rest.split_once(';').unwrap_or((rest, ""));
            if attributes.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), content.to_owned());
            }
            self.set.push(value.clone());
        }
    }
}

pub(super) fn names(provider: &Provider) -> Names {
    Names::new(&provider.issuer(), CLIENT.0)
}

fn keys() -> Keys {
    Keys::new([("one", KEY.as_bytes().to_vec())].into_iter()).expect("a key")
}

/// The identity of the provider's client in the cookies' keys.
fn identity(issuer: &str) -> Vec<u8> {
    let settings = identity::oidc::provider::Settings {
        issuer: issuer.to_owned(),
        client_id: CLIENT.0.to_owned(),
        client_secret: String::new(),
        authorities: None,
    };
    identity::oidc::provider::Provider::new(settings).digest().to_vec()
}

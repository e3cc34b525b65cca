//! Session persistence of rules and of backends, as affinity to endpoints.
//!
//! Never in here: which of the two counts where both are there.

use model::{Affinity, AffinityCookie, AffinityMode, CookieText, HeaderName, InvalidHeadText};

use super::conditions::Fault;
use super::duration;
use crate::objects::gateway_api::{CookieConfig, CookieLifetime, SessionPersistence, SessionType};

/// The cookie or header name of a session without a name.
const SESSION_NAME: &str = "forebay-session";

/// The object that asks for session persistence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionOf {
    /// A rule of a route: until version 1.6 of the specification the path of the cookie is that of the rule.
    Rule,
    /// A backend, which may be reached by several paths.
    Backend,
}

/// The parts of session persistence, whatever its form.
struct Parts<'s> {
    /// The field of the name, for messages.
    field: &'static str,
    name: &'s str,
    /// Path of the cookie; none for that of the rule.
    path: Option<&'s str>,
    cookie: Option<&'s CookieConfig>,
}

/// Reads session persistence.
pub(super) fn affinity(asked: &SessionPersistence, of: SessionOf) -> Result<Affinity, Fault> {
    let age_max = duration::read(asked.absolute_timeout.as_deref())?;
    let parts = parts(asked, of)?;
    let lifetime = parts.cookie.map(|cookie| &cookie.lifetime_type);
    if let Some(CookieLifetime::Other(lifetime)) = lifetime {
        return Err(unsupported(format!("a cookie of lifetimeType {lifetime} is not supported")));
    }
    let is_permanent = lifetime == Some(&CookieLifetime::Permanent);
    if is_permanent && age_max.is_none() {
        return Err(unsupported("a cookie of lifetimeType Permanent needs absoluteTimeout"));
    }
    let seconds = age_max.map(|age| age.as_secs().cast_signed()).filter(|_| is_permanent);
    let invalid = |why: InvalidHeadText| unsupported(format!("{}: {why}", parts.field));
    let header = match &asked.kind {
        SessionType::Cookie => None,
        SessionType::Header => Some(HeaderName::new(parts.name).map_err(invalid)?),
        SessionType::Other(kind) => {
            return Err(unsupported(format!("session persistence of type {kind} is not supported")));
        }
    };
    let name = CookieText::new(parts.name).map_err(invalid)?;
    let path = parts.path.map(CookieText::new).transpose();
    let path = path.map_err(|why| unsupported(format!("cookie.path: {why}")))?;
    let cookie =
        AffinityCookie { name, path, max_age: seconds, expires: seconds, ..AffinityCookie::default() };
    Ok(Affinity {
        mode: AffinityMode::Persistent,
        change_on_failure: true,
        cookie,
        header,
        age_max,
        key: None,
    })
}

fn parts(asked: &SessionPersistence, of: SessionOf) -> Result<Parts<'_>, Fault> {
    let is_new = asked.cookie.is_some() || asked.header.is_some();
    let is_old = asked.session_name.is_some() || asked.cookie_config.is_some();
    let is_header = asked.kind == SessionType::Header;
    if is_new && is_old {
        return Err(unsupported(
            "cookie and header replace sessionName and cookieConfig: there may be only one form",
        ));
    }
    if !is_new {
        let name = asked.session_name.as_deref().unwrap_or(SESSION_NAME);
        let path = (of == SessionOf::Backend).then_some("/");
        return Ok(Parts { field: "sessionName", name, path, cookie: asked.cookie_config.as_ref() });
    }
    match (&asked.cookie, &asked.header) {
        (Some(cookie), None) if !is_header => {
            let (name, path) = (cookie.name.as_deref(), cookie.path.as_deref());
            let (name, path) = (name.unwrap_or(SESSION_NAME), path.filter(|path| !path.is_empty()));
            // A cookie's name is made of the same characters as a header's.
            HeaderName::new(name).map_err(|why| unsupported(format!("cookie.name: {why}")))?;
            Ok(Parts { field: "cookie.name", name, path: Some(path.unwrap_or("/")), cookie: Some(cookie) })
        }
        (None, Some(header)) if is_header => {
            Ok(Parts { field: "header.name", name: &header.name, path: Some("/"), cookie: None })
        }
        _ => Err(unsupported(
            "type Cookie needs cookie and no header, and type Header needs header and no cookie",
        )),
    }
}

fn unsupported(message: impl Into<String>) -> Fault {
    Fault::new("UnsupportedValue", message)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(text: &str, of: SessionOf) -> Result<Affinity, Fault> {
        affinity(&serde_saphyr::from_str(text).unwrap(), of)
    }

    /// Name, path, lifetime and header.
    fn described(text: &str, of: SessionOf) -> String {
        let affinity = read(text, of).unwrap();
        let AffinityCookie { name, path, max_age, .. } = &affinity.cookie;
        let header = affinity.header.as_deref();
        format!("{name} {:?} {max_age:?} {header:?}", path.as_deref())
    }

    #[test]
    fn both_forms_mean_the_same_but_for_the_path_of_a_rule() {
        let old = "{sessionName: s, absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}";
        let new = "{absoluteTimeout: 1h, cookie: {name: s, lifetimeType: Permanent}}";
        assert_eq!(described(old, SessionOf::Rule), "s None Some(3600) None");
        let all = [(old, SessionOf::Backend), (new, SessionOf::Rule), (new, SessionOf::Backend)];
        for (text, of) in all {
            assert_eq!(described(text, of), "s Some(\"/\") Some(3600) None", "{text}");
            assert_eq!(read(text, of).unwrap().age_max, Some(Duration::from_secs(3600)));
        }
        assert_eq!(
            described("{cookie: {name: s, path: /a}}", SessionOf::Backend),
            "s Some(\"/a\") None None"
        );
        let old = described("{sessionName: x-s, type: Header}", SessionOf::Rule);
        let new = described("{type: Header, header: {name: x-s}}", SessionOf::Rule);
        assert_eq!(
            (old.as_str(), new.as_str()),
            ("x-s None None Some(\"x-s\")", "x-s Some(\"/\") None Some(\"x-s\")")
        );
    }

    #[test]
    fn a_session_without_settings_has_a_name() {
        for text in
            ["{}", "{type: Cookie}", "{cookieConfig: {}}", "{cookie: {}}", "{type: Cookie, cookie: null}"]
        {
            assert_eq!(
                described(text, SessionOf::Backend),
                "forebay-session Some(\"/\") None None",
                "{text}"
            );
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for text in [
            "{sessionName: s, cookie: {}}",
            "{cookieConfig: {}, header: {name: s}}",
            "{cookie: {}, header: {name: s}}",
            "{type: Header, cookie: {name: s}}",
            "{header: {name: s}}",
            "{cookie: {lifetimeType: Permanent}}",
            "{cookie: {lifetimeType: Eternal}}",
            "{cookie: {name: \"a b\"}}",
            "{cookie: {path: \"/a;b\"}}",
            "{type: Header, header: {name: \"a b\"}}",
            "{type: Query}",
            "{absoluteTimeout: soon}",
        ] {
            assert!(read(text, SessionOf::Backend).is_err(), "{text}");
        }
    }
}

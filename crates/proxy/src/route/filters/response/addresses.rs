//! Translates an endpoint's addresses in its response into those that clients use (nginx: `proxy_redirect`,
//! `proxy_cookie_domain`, `proxy_cookie_path`).

use model::{ResponsePolicy, Substitution};

use crate::request::head::HeadEdits;

/// Changes the head of an endpoint's response, after the changes for all responses. `origin` is this proxy's,
/// which nginx adds to a redirect that is a path alone.
pub(crate) fn translate(policy: &ResponsePolicy, origin: impl Fn() -> String, edits: &mut HeadEdits<'_>) {
    if let Some(location) = &policy.location {
        translate_redirects(location, origin, edits);
    }
    if policy.cookie_domain.is_some() || policy.cookie_path.is_some() {
        translate_cookies(policy, edits);
    }
}

fn translate_redirects(location: &Substitution, origin: impl Fn() -> String, edits: &mut HeadEdits<'_>) {
    let redirect = edits.passing(b"location").next();
    if let Some(mut url) = redirect.and_then(|url| with_other_beginning(url, location)) {
        if url.first() == Some(&b'/') {
            url.splice(0..0, origin().into_bytes());
        }
        edits.set("Location", url);
    }
    let refresh = edits.passing(b"refresh").next();
    if let Some(refresh) = refresh.and_then(|refresh| translated_refresh(refresh, location)) {
        edits.set("Refresh", refresh);
    }
}

/// A value `5; url=http://…`, of which the URL is translated.
fn translated_refresh(value: &[u8], location: &Substitution) -> Option<Vec<u8>> {
    let at = value.windows(4).position(|part| part.eq_ignore_ascii_case(b"url="))? + 4;
    let (before, url) = value.split_at(at);
    Some([before, &with_other_beginning(url, location)?].concat())
}

fn with_other_beginning(text: &[u8], Substitution { from, to }: &Substitution) -> Option<Vec<u8>> {
    let rest = text.strip_prefix(from.as_bytes())?;
    Some([to.as_bytes(), rest].concat())
}

fn translate_cookies(policy: &ResponsePolicy, edits: &mut HeadEdits<'_>) {
    const NAME: &str = "Set-Cookie";
    let cookies: Vec<_> = edits.passing(NAME.as_bytes()).collect();
    let translated: Vec<_> = cookies.iter().map(|cookie| translated_cookie(policy, cookie)).collect();
    if translated.iter().all(Option::is_none) {
        return;
    }
    edits.remove(NAME);
    for (cookie, translated) in cookies.into_iter().zip(translated) {
        edits.add(NAME, translated.unwrap_or_else(|| cookie.to_vec()));
    }
}

/// A cookie with translated attributes; none where they are unchanged.
fn translated_cookie(policy: &ResponsePolicy, cookie: &[u8]) -> Option<Vec<u8>> {
    let mut is_changed = false;
    let parts: Vec<Vec<u8>> = cookie
        .split(|&byte| byte == b';')
        .enumerate()
        .map(|(number, part)| {
            let part = part.trim_ascii();
            // The first part is the name and the value of the cookie itself.
            let changed = if number == 0 { None } else { translated_attribute(policy, part) };
            is_changed |= changed.is_some();
            changed.unwrap_or_else(|| part.to_vec())
        })
        .collect();
    is_changed.then(|| parts.join(&b"; "[..]))
}

fn translated_attribute(policy: &ResponsePolicy, attribute: &[u8]) -> Option<Vec<u8>> {
    let at = memchr::memchr(b'=', attribute)?;
    let (name, value) = (&attribute[..at], attribute[at + 1..].trim_ascii());
    let value = match name.trim_ascii().to_ascii_lowercase().as_slice() {
        b"domain" => with_other_domain(value, policy.cookie_domain.as_ref()?)?,
        b"path" => with_other_beginning(value, policy.cookie_path.as_ref()?)?,
        _ => return None,
    };
    Some([name, b"=", &value].concat())
}

/// Replaces the whole domain, compared without letter case. A dot before it stays.
fn with_other_domain(value: &[u8], Substitution { from, to }: &Substitution) -> Option<Vec<u8>> {
    let (dot, name) = match value.strip_prefix(b".") {
        Some(name) => (&b"."[..], name),
        None => (&b""[..], value),
    };
    let bare = |text: &str| text.strip_prefix('.').unwrap_or(text).to_owned();
    name.eq_ignore_ascii_case(bare(from).as_bytes()).then(|| [dot, bare(to).as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use wire::cache::Head;
    use wire::h1::{Fields, parse_response};

    use super::*;

    fn substitution(from: &str, to: &str) -> Substitution {
        Substitution { from: from.to_owned(), to: to.to_owned() }
    }

    /// Fields that replace those of a response.
    fn edits(policy: &ResponsePolicy, fields: &str) -> Vec<String> {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let response = parse_response(head.as_bytes(), Fields::default()).unwrap().unwrap();
        let mut edits = HeadEdits::over(Head::of_response(head.as_bytes(), &response));
        translate(policy, || "http://own.test".to_owned(), &mut edits);
        edits.lines()
    }

    #[test]
    fn beginnings_of_locations_and_of_urls_in_refresh() {
        let location = Some(substitution("http://in.test/", "https://out.test/x/"));
        let policy = ResponsePolicy { location, ..ResponsePolicy::default() };
        let said = edits(&policy, "Location: http://in.test/a?b\r\nRefresh: 5; URL=http://in.test/c\r\n");
        assert_eq!(said, ["Location: https://out.test/x/a?b", "Refresh: 5; URL=https://out.test/x/c"]);
        let other = "Location: http://IN.test/a\r\nRefresh: 5\r\n";
        assert_eq!(
            edits(&policy, other),
            [""; 0],
            "letter case counts, and what does not begin so is left alone"
        );
    }

    #[test]
    fn a_path_alone_is_made_absolute() {
        let policy = ResponsePolicy {
            location: Some(substitution("http://in.test/", "/")),
            ..ResponsePolicy::default()
        };
        assert_eq!(edits(&policy, "Location: http://in.test/a\r\n"), ["Location: http://own.test/a"]);
        assert_eq!(edits(&policy, "Location: /a\r\n"), [""; 0], "as it came");
    }

    #[test]
    fn paths_of_cookies_are_literal_beginnings() {
        let policy =
            ResponsePolicy { cookie_path: Some(substitution("/a", "/")), ..ResponsePolicy::default() };
        assert_eq!(
            edits(&policy, "Set-Cookie: a=/a; PATH=/a/b;Secure\r\nset-cookie: path=/a; Path=/c\r\n"),
            ["Set-Cookie", "Set-Cookie: a=/a; PATH=//b; Secure", "Set-Cookie: path=/a; Path=/c"]
        );
        assert_eq!(edits(&policy, "Set-Cookie: a=1; Path=/c;Secure\r\n"), [""; 0]);
    }

    #[test]
    fn domains_of_cookies_are_whole() {
        let policy = ResponsePolicy {
            cookie_domain: Some(substitution("in.test", ".out.test")),
            ..ResponsePolicy::default()
        };
        let said = |attribute: &str| edits(&policy, &format!("Set-Cookie: a=1; {attribute}\r\n"));
        assert_eq!(said("Domain=.IN.test")[1], "Set-Cookie: a=1; Domain=.out.test");
        assert_eq!(said("domain=in.test")[1], "Set-Cookie: a=1; domain=out.test");
        assert_eq!(said("Domain=a.in.test"), [""; 0]);
    }
}

//! `application/x-www-form-urlencoded`: queries of URLs, and bodies of requests to a provider.

/// Appends `name=value` to a query or a form.
pub fn add(out: &mut String, name: &str, value: &str) {
    if !out.is_empty() && !out.ends_with(['?', '&']) {
        out.push('&');
    }
    escape(out, name);
    out.push('=');
    escape(out, value);
}

/// A form of some pairs.
pub fn of(pairs: &[(&str, &str)]) -> String {
    let mut form = String::new();
    for (name, value) in pairs {
        add(&mut form, name, value);
    }
    form
}

/// A URL with more parameters, before its fragment if it has one.
pub fn with_query(url: &str, pairs: &[(&str, &str)]) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let mut whole = url.to_owned();
    if !url.contains('?') {
        whole.push('?');
    }
    for (name, value) in pairs {
        add(&mut whole, name, value);
    }
    whole
}

/// Escapes everything but the unreserved characters of RFC 3986, also for the user and password of
/// `client_secret_basic` (RFC 6749 section 2.3.1).
pub fn escape(out: &mut String, text: &str) {
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

/// Parses a query or a form.
///
/// # Errors
///
/// When an escape is broken, or a text is not UTF-8 or has control characters.
pub fn parse(text: &[u8]) -> Result<Vec<(String, String)>, &'static str> {
    let pairs = text.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let at = pair.iter().position(|&byte| byte == b'=').unwrap_or(pair.len());
            let value = pair.get(at + 1..).unwrap_or_default();
            Ok((unescape(&pair[..at])?, unescape(value)?))
        })
        .collect()
}

fn unescape(text: &[u8]) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digit = |at: usize| char::from(*rest.get(at)?).to_digit(16);
                let (Some(high), Some(low)) = (digit(0), digit(1)) else { return Err("an escape is broken") };
                bytes.push((high * 16 + low) as u8);
                rest = &rest[2..];
            }
            byte => bytes.push(byte),
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| "a parameter is not UTF-8")?;
    if text.chars().any(char::is_control) { Err("a parameter has control characters") } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back() {
        let form = of(&[("a b", "c&d=e"), ("ü", ""), ("plus", "+%")]);
        assert_eq!(form, "a%20b=c%26d%3De&%C3%BC=&plus=%2B%25");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = vec![pair("a b", "c&d=e"), pair("ü", ""), pair("plus", "+%")];
        assert_eq!(parse(form.as_bytes()), Ok(expected));
        assert_eq!(parse(b"a=b+c&&d"), Ok(vec![pair("a", "b c"), pair("d", "")]));
    }

    #[test]
    fn broken_forms_are_refused() {
        for bad in [&b"a=%"[..], b"a=%4", b"a=%zz", b"a=%ff", b"a=%0a", b"a=%00", b"\xff"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_url_keeps_its_own_query() {
        assert_eq!(with_query("https://a/b", &[("c", "d")]), "https://a/b?c=d");
        assert_eq!(with_query("https://a/b?x=y#z", &[("c", "d"), ("e", "f")]), "https://a/b?x=y&c=d&e=f");
    }
}

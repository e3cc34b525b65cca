//! The protocols that clients may upgrade to.

use crate::translate::value;

/// The protocols of a list, and a remark about those that are left out. A connection upgraded to another
/// version of HTTP, or to TLS, would carry requests that the proxy does not see, so these are not allowed.
pub(super) fn upgrade_protocols(text: &str) -> (Vec<String>, Option<String>) {
    let (mut taken, mut refused) = (Vec::new(), Vec::new());
    for name in value::list(text) {
        let name = name.to_ascii_lowercase();
        let (protocol, _version) = name.split_once('/').unwrap_or((&name, ""));
        let is_http = protocol.starts_with("h2") || matches!(protocol, "http" | "tls");
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(&byte);
        let names = if is_http || !name.bytes().all(is_token) { &mut refused } else { &mut taken };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let refused: Vec<_> = refused.iter().map(|name| format!("{name:?}")).collect();
    let remark = (!refused.is_empty()).then(|| {
        let why = "requests would pass that nobody looks at, or it is no name";
        format!("ignored: {} ({why})", refused.join(", "))
    });
    (taken, remark)
}

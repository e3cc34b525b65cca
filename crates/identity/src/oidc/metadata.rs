//! The discovery document of a provider (`OpenID Connect` Discovery 1.0).

use std::net::IpAddr;

use serde::Deserialize;

/// The path of the document below the issuer.
pub const PATH: &str = "/.well-known/openid-configuration";

/// The document in which a provider describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Where users sign in.
    pub authorization_endpoint: String,
    /// Where codes and refresh tokens are redeemed.
    pub token_endpoint: String,
    /// Where the keys are.
    pub jwks_uri: String,
    /// Where users sign out; none if the provider has no such place.
    pub end_session_endpoint: Option<String>,
    /// Where claims are that the ID token does not have.
    pub userinfo_endpoint: Option<String>,
    /// How the client says who it is at the token endpoint.
    pub authentication: Authentication,
}

/// How a client says who it is at the token endpoint (RFC 6749 section 2.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// In the header `Authorization`.
    #[default]
    Basic,
    /// In the body.
    Post,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    end_session_endpoint: Option<String>,
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    response_types_supported: Option<Vec<String>>,
}

/// The URL of the discovery document of an issuer.
pub fn url(issuer: &str) -> String {
    format!("{}{PATH}", issuer.trim_end_matches('/'))
}

impl Metadata {
    /// Reads the document of an issuer.
    ///
    /// # Errors
    ///
    /// When it is no such document, is that of another issuer, or lacks what the code flow needs.
    pub fn parse(issuer: &str, text: &[u8]) -> Result<Self, String> {
        let read: Document =
            serde_json::from_slice(text).map_err(|error| format!("the document cannot be read: {error}"))?;
        if read.issuer != issuer {
            return Err(format!("the document is that of issuer {:?}, not of {issuer:?}", read.issuer));
        }
        if read.response_types_supported.is_some_and(|types| types.iter().all(|one| one != "code")) {
            return Err("the provider does not support response_type code".to_owned());
        }
        let authentication = match read.token_endpoint_auth_methods_supported {
            None => Authentication::Basic,
            Some(methods) if methods.iter().any(|one| one == "client_secret_basic") => Authentication::Basic,
            Some(methods) if methods.iter().any(|one| one == "client_secret_post") => Authentication::Post,
            Some(methods) => {
                let methods = methods.join(", ");
                return Err(format!(
                    "the token endpoint takes neither client_secret_basic nor client_secret_post, but {methods}"
                ));
            }
        };
        // Where users sign in, their browsers go; the others are asked from here.
        let (front, back) = (read.authorization_endpoint, [read.token_endpoint, read.jwks_uri]);
        for (name, url) in ["token_endpoint", "jwks_uri"].iter().zip(&back) {
            check_url(url).map_err(|why| format!("{name} {url:?}: {why}"))?;
        }
        let has_web_scheme =
            |url: &str| is_plain(url) && (url.starts_with("https://") || url.starts_with("http://"));
        if !has_web_scheme(&front) {
            return Err(format!("authorization_endpoint {front:?} is no URL of the web"));
        }
        let [token_endpoint, jwks_uri] = back;
        Ok(Self {
            authorization_endpoint: front,
            token_endpoint,
            jwks_uri,
            end_session_endpoint: read.end_session_endpoint.filter(|url| has_web_scheme(url)),
            userinfo_endpoint: read.userinfo_endpoint.filter(|url| check_url(url).is_ok()),
            authentication,
        })
    }
}

/// Checks that a URL may be asked for secrets or keys: encrypted, or within the cluster or this machine.
///
/// # Errors
///
/// When it is none of these.
pub fn check_url(url: &str) -> Result<(), &'static str> {
    if !is_plain(url) {
        return Err("it has characters that no URL may have");
    }
    let host = |rest: &str| {
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        if authority.contains('@') {
            return None;
        }
        let name = match authority.strip_prefix('[') {
            Some(address) => address.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        (!name.is_empty()).then(|| name.to_ascii_lowercase())
    };
    if let Some(rest) = url.strip_prefix("https://") {
        return host(rest).map(|_| ()).ok_or("it has no host, or a user");
    }
    let Some(rest) = url.strip_prefix("http://") else {
        return Err("it begins with neither https:// nor http://");
    };
    let name = host(rest).ok_or("it has no host, or a user")?;
    let is_loopback = name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    let is_service = [".svc", ".svc.cluster.local"].iter().any(|end| name.ends_with(end));
    if is_loopback || is_service {
        Ok(())
    } else {
        Err("http:// is for Services of the cluster (NAME.NAMESPACE.svc) and this machine; use https://")
    }
}

fn is_plain(url: &str) -> bool {
    url.len() <= 2048 && url.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://issuer.test/realm";

    fn document() -> serde_json::Value {
        serde_json::json!({
            "issuer": ISSUER,
            "authorization_endpoint": "https://issuer.test/auth",
            "token_endpoint": "https://issuer.test/token",
            "jwks_uri": "http://keys.auth.svc/keys",
            "end_session_endpoint": "https://issuer.test/end",
        })
    }

    fn read(change: impl FnOnce(&mut serde_json::Value)) -> Result<Metadata, String> {
        let mut document = document();
        change(&mut document);
        Metadata::parse(ISSUER, document.to_string().as_bytes())
    }

    #[test]
    fn a_document_of_the_issuer_is_read() {
        let read_plain = read(|_| ()).unwrap();
        assert_eq!(read_plain.token_endpoint, "https://issuer.test/token");
        assert_eq!(read_plain.authentication, Authentication::Basic);
        let post = read(|it| {
            it["token_endpoint_auth_methods_supported"] = serde_json::json!(["client_secret_post"]);
        });
        assert_eq!(post.unwrap().authentication, Authentication::Post);
        assert_eq!(url(ISSUER), "https://issuer.test/realm/.well-known/openid-configuration");
        assert_eq!(url("https://a/"), "https://a/.well-known/openid-configuration");
    }

    #[test]
    fn documents_that_lead_elsewhere_are_refused() {
        assert!(read(|it| it["issuer"] = "https://other.test".into()).unwrap_err().contains("other.test"));
        assert!(read(|it| it["issuer"] = format!("{ISSUER}/").into()).is_err());
        assert!(read(|it| it["token_endpoint"] = "http://elsewhere.test/token".into()).is_err());
        assert!(read(|it| it["authorization_endpoint"] = "javascript:alert(1)".into()).is_err());
        assert!(read(|it| it["authorization_endpoint"] = "https://a/\r\nX: y".into()).is_err());
        assert!(
            read(|it| it["token_endpoint_auth_methods_supported"] = serde_json::json!(["private_key_jwt"]))
                .is_err()
        );
        assert!(read(|it| it["response_types_supported"] = serde_json::json!(["id_token"])).is_err());
        assert!(Metadata::parse(ISSUER, b"<html>").is_err());
    }

    #[test]
    fn secrets_go_over_tls_or_stay_near() {
        for (url, is_good) in [
            ("https://a.test/b", true),
            ("http://127.0.0.1:80/b", true),
            ("http://[::1]:80/b", true),
            ("http://localhost/b", true),
            ("http://dex.auth.svc:5556/dex", true),
            ("http://dex.auth.svc.cluster.local/dex", true),
            ("http://a.test/b", false),
            ("http://svc/b", false),
            ("http://localhost@evil.test/b", false),
            ("http://127.0.0.1.evil.test/", false),
            ("https://", false),
            ("ftp://localhost/", false),
            ("https://a.test/ b", false),
        ] {
            assert_eq!(check_url(url).is_ok(), is_good, "{url}");
        }
    }
}

//! The way to the provider.

use std::sync::Arc;

use identity::oidc::cookies::{LOGINS_MAX, removed, set_login};
use identity::oidc::login::{Asked, Login, TIME_MAX};
use identity::oidc::metadata::Metadata;
use identity::oidc::provider::Ask;
use identity::oidc::seal::Place;
use model::OidcClient;

use super::cookies::split;
use super::here::{host, now, origin};
use super::pages;
use super::question::ask;
use crate::admit::Targeted;
use crate::limits::OIDC_DISCOVERY_TIME_MAX;
use crate::request::lookup;
use crate::request::reply::{Answer, Scope};
use crate::request::stage::Watch;
use crate::route::filters::FilterResult;

/// The purpose of the cookie of a sign-in.
pub(super) const LOGIN: &str = "login";

/// The challenge to clients that no browser leads to the provider.
const CHALLENGE: &[u8] = b"OpenIDConnect";

/// Sends a client to the provider, if it is a browser that shows a page to somebody. Any other client would
/// take the provider's page for its response, and is refused with 401.
pub(super) async fn require(
    targeted: &Targeted<'_>,
    client: &Arc<OidcClient>,
    watch: impl Watch,
) -> FilterResult {
    if !is_navigation(targeted) {
        return FilterResult::Answer(Answer::refusal(401, &[CHALLENGE.to_vec()]).setting_cookies([]));
    }
    if watch.explains() {
        return FilterResult::Answer(Answer::redirect(302, client.provider.settings().issuer.clone()));
    }
    let Some(metadata) = metadata(targeted, client).await else {
        return FilterResult::Answer(pages::away());
    };
    let login = Login::begin(targeted.parsed.origin_target(targeted.head));
    let redirect_uri = format!("{}{}", origin(targeted), client.callback_path);
    let asked = Asked {
        client_id: &client.provider.settings().client_id,
        redirect_uri: &redirect_uri,
        scopes: &client.scopes,
        parameters: &client.parameters,
    };
    let url = login.url(&metadata.authorization_endpoint, &asked);
    let mut cookies = surplus(targeted, client);
    let (name, host) = (client.provider.names().of_login(&login.state), host(targeted));
    let place = Place { purpose: LOGIN, provider: client.provider.digest(), host: &host, name: &name };
    let sealed = client.keys.seal(place, now(targeted), &login.encode());
    cookies.push(set_login(&name, &sealed, TIME_MAX));
    FilterResult::Answer(Answer::redirect(302, url).setting_cookies(cookies).of(Scope::Signin))
}

/// The metadata of the provider; none if it cannot be fetched. The first client may have to wait for it.
pub(super) async fn metadata(targeted: &Targeted<'_>, client: &OidcClient) -> Option<Arc<Metadata>> {
    let provider = &client.provider;
    if let Some(metadata) = provider.metadata() {
        return Some(metadata);
    }
    ask(targeted, provider, Ask::Discover, OIDC_DISCOVERY_TIME_MAX).await.ok()?;
    provider.metadata()
}

/// Removes the oldest sign-ins of a client that has too many in progress.
fn surplus(targeted: &Targeted<'_>, client: &OidcClient) -> Vec<String> {
    let begin = client.provider.names().login.as_bytes();
    let cookies = lookup::cookies(targeted.head, targeted.parsed).map(|pair| split(pair).0);
    let names: Vec<_> = cookies.filter(|name| name.starts_with(begin)).collect();
    let surplus = (names.len() + 1).saturating_sub(LOGINS_MAX);
    names[..surplus].iter().map(|name| removed(&String::from_utf8_lossy(name))).collect()
}

/// Whether a browser wants a page to show. Browsers say so; of others, those do that name HTML and are not
/// a script.
fn is_navigation(targeted: &Targeted<'_>) -> bool {
    let value = |name: &[u8]| lookup::header(targeted.head, targeted.parsed, name);
    if !matches!(targeted.method(), b"GET" | b"HEAD") || targeted.parsed.is_upgrade() || targeted.is_grpc() {
        return false;
    }
    if let Some(mode) = value(b"sec-fetch-mode") {
        return *mode == *b"navigate";
    }
    let accepts_html = || value(b"accept").is_some_and(|accept| contains(&accept, b"text/html"));
    value(b"x-requested-with").is_none() && accepts_html()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

//! The provider at which clients of a measurement sign in, and their sessions.

use std::net::SocketAddr;
use std::sync::LazyLock;

use anyhow::{Context, Result, ensure};
use testkit::Provider;

use crate::ask::{Answer, Question};

static PROVIDER: LazyLock<Provider> = LazyLock::new(Provider::start);

/// The provider's issuer.
pub(super) fn issuer() -> String {
    PROVIDER.issuer()
}

/// The cookie of a client that has signed in at a host, which a server has at this address.
pub(super) fn session(host: &str, address: SocketAddr) -> Result<String> {
    let ask = |path: &str, headers: &[(&str, &str)]| -> Result<Answer> {
        Question { host, path, headers, ..Question::default() }.ask(address)
    };
    let page = ask("/0", &[("Accept", "text/html")])?;
    ensure!(page.status == 302, "a browser is not sent to the provider: {page:?}");
    let back = PROVIDER.sign_in(page.location());
    let path = back.split_once(host).with_context(|| format!("{back} is of another host"))?.1;
    let login = cookie(&page).context("a sign-in without a cookie")?;
    let signed_in = ask(path, &[("Cookie", login.as_str())])?;
    ensure!(signed_in.status == 302, "nobody is signed in: {signed_in:?}");
    cookie(&signed_in).context("a session without a cookie")
}

/// The first cookie of an answer, as its client sends it.
fn cookie(answer: &Answer) -> Option<String> {
    Some(answer.header("Set-Cookie")?.split(';').next()?.to_owned())
}

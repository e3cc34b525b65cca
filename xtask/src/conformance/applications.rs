//! Applications that people run behind ingress-nginx, with the Ingresses of its documentation: a service for
//! sign-in, an application under a sub-path, cert-manager's challenges.
//!
//! Must not be in here: how the programs come to be there.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::stage::{CHALLENGE, KEY, Stage};
use super::talk::Browser;
use crate::ask::Answer;
use crate::template::render_file;

const LIMIT: Duration = Duration::from_secs(60);
/// The session of oauth2-proxy.
const SESSION: &str = "_oauth2_proxy";

/// Signs in by `auth-url` and `auth-signin`, with `OpenID` Connect.
pub(super) fn signin(stage: &Stage) -> Result<String> {
    const PAGE: &str = "http://signin.test/api/page?a=b%20c&d=e";
    let mut browser = Browser::new(stage.http);
    let sent = |answer: &Answer| -> Result<()> {
        ensure!(answer.status == 302, "who is not signed in is answered with {}", answer.status);
        let expected = "http://signin.test/oauth2/start?rd=%2Fapi%2Fpage%3Fa%3Db%2520c%26d%3De";
        ensure!(answer.location() == expected, "sent to {}", answer.location());
        Ok(())
    };
    sent(&browser.get(PAGE)?)?;

    let (answer, way) = browser.visit(PAGE)?;
    let way_back = way.join(" -> ");
    ensure!(
        answer.status == 200 && way.last().is_some_and(|url| url == PAGE),
        "{}: {way_back}",
        answer.status
    );
    for stop in ["/oauth2/start?", "/authorize?", "/oauth2/callback?"] {
        ensure!(way.iter().any(|url| url.contains(stop)), "{stop} is not on the way: {way_back}");
    }
    let told = answer.json()?;
    ensure!(told["path"] == "/api/page" && told["search"] == "?a=b%20c&d=e", "the page was asked for {told}");
    for (name, value) in [("x-auth-request-user", "user-1"), ("x-auth-request-email", "somebody@signin.test")]
    {
        ensure!(told["headers"][name] == value, "{name}: {told}");
    }
    let again = browser.get(PAGE)?;
    ensure!(again.status == 200, "the session ends after one request: {}", again.status);

    let session = browser.cookies.get(SESSION).cloned().context("there is no session")?;
    browser.cookies.insert(SESSION.into(), session.chars().rev().collect());
    sent(&browser.get(PAGE)?).context("with a bad cookie")?;

    browser.cookies.insert(SESSION.into(), session);
    ensure!(browser.get(PAGE)?.status == 200, "the right cookie is not believed any more");
    let out = browser.get("http://signin.test/oauth2/sign_out?rd=%2Fbye")?;
    ensure!(out.location() == "/bye", "signed out with {}, to {}", out.status, out.location());
    ensure!(!browser.cookies.contains_key(SESSION), "the cookie is still there");
    sent(&browser.get(PAGE)?).context("signed out")?;
    Ok("oauth2-proxy signs in and out with a provider, and says who it is".into())
}

/// An application like Grafana, below a path that is taken off and below one that is not.
pub(super) fn subpath(stage: &Stage) -> Result<String> {
    for (host, within) in [("rewritten.test", ""), ("whole.test", "/grafana")] {
        let mut browser = Browser::new(stage.http);
        let at = |path: &str| format!("http://{host}/grafana{path}");
        for (path, status, location) in [
            ("/", 302, "/grafana/login"),
            ("/absolute", 302, &*at("/login")),
            ("/login", 200, ""),
            ("/public/app.js", 200, ""),
            ("/nowhere", 404, ""),
        ] {
            let answer = browser.get(&at(path))?;
            let said = (answer.status, answer.location());
            ensure!(said == (status, location), "{host}: {path} is answered with {said:?}");
        }
        let (page, way) = browser.visit(&at("/"))?;
        ensure!(page.status == 200 && page.text().contains("<base href=\"/grafana/\">"), "{host}: {way:?}");
        for (path, arrives) in [
            ("/api/a/b?c=d%2Fe", "/api/a/b"),
            ("/api/caf%C3%A9", "/api/caf%C3%A9"),
            ("/api/a%20b", "/api/a%20b"),
        ] {
            let told = browser.get(&at(path))?.json()?;
            ensure!(
                told["path"] == format!("{within}{arrives}"),
                "{host}: {path} arrives as {}",
                told["path"]
            );
            ensure!(
                told["headers"]["cookie"] == "session=1",
                "{host}: the cookie is {}",
                told["headers"]["cookie"]
            );
        }
        let other = browser.get(&format!("http://{host}/grafanas"))?;
        ensure!(
            other.status == 404 && !other.text().starts_with("nothing at"),
            "{host}: /grafanas is the application's"
        );

        let mut command = stage.tools.node_script("websocket/client.cjs");
        command.args([&format!("ws://{}/grafana/api/live/ws", stage.http), "", "", host]);
        stage.output("websocket", command, LIMIT).with_context(|| format!("{host}: live"))?;
    }
    let bare = Browser::new(stage.http).get("http://rewritten.test/grafana")?;
    ensure!(bare.location() == "/grafana/login", "without a slash: {}", bare.status);
    Ok("pages, redirects and WebSockets, with the path rewritten and as it is".into())
}

/// The challenge of a host with TLS, redirects, a list of clients and a password, from Ingresses as
/// cert-manager makes them.
pub(super) fn challenges(stage: &Stage) -> Result<String> {
    let file = stage.folder.join("manifests/solver.yaml");
    let url = format!("http://{CHALLENGE}");
    for path_type in ["ImplementationSpecific", "Exact"] {
        await_status(stage, &url, 308).context("before")?;
        let (host, path) = CHALLENGE.split_once('/').context("a challenge")?;
        let values = json!({"host": host, "path": path, "type": path_type});
        fs::write(&file, render_file("conformance/solver.yaml", values)?)?;
        let answer = await_status(stage, &url, 200).context(path_type)?;
        ensure!(answer.text() == KEY, "{path_type}: the key is {}", answer.text());
        for (other, status) in [("http://challenged.test/", 308), (&*format!("{url}x"), 308)] {
            let answer = Browser::new(stage.http).get(other)?;
            ensure!(answer.status == status, "{path_type}: {other} is answered with {}", answer.status);
            ensure!(answer.location().starts_with("https://challenged.test"), "{path_type}: {other}");
        }
        fs::remove_file(&file)?;
    }
    await_status(stage, &url, 308).context("after")?;
    Ok("a challenge is answered in clear beside TLS, redirects, lists and passwords".into())
}

/// Asks until the status is this one.
fn await_status(stage: &Stage, url: &str, status: u16) -> Result<Answer> {
    let found = stage.interrupt.poll(LIMIT, || {
        let answer = Browser::new(stage.http).get(url)?;
        Ok((answer.status == status).then_some(answer))
    })?;
    found.with_context(|| format!("{url} is not answered with {status}"))
}

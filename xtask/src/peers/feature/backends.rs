//! Which backend a request goes to: by weight, and by a cookie.

use anyhow::{Context, Result, ensure};

use super::{Case, Counted, Directives, Feature, Manifests, Scene};
use crate::peers::proxy::Peer;

/// A tenth of the requests goes to another Service. nginx has no canaries; it splits clients, whose identity is that of the request.
pub(crate) fn canary() -> Case {
    let feature = Feature {
        directives: Directives {
            http: "  split_clients $request_id $group { 10% canary; * web; }\n".into(),
            group: Some("$group"),
            ..Directives::default()
        },
        manifests: Manifests {
            canary: vec![("canary", "true".into()), ("canary-weight", "10".into())],
            ..Manifests::default()
        },
        ..Feature::default()
    };
    Case { feature, services: &["canary"], asked_besides: 0.08..=0.12, ..Case::default() }
}

const ENDPOINTS: usize = 5;
const SESSIONS: usize = 64;
const ASKED: u64 = 20;

/// Clients that have the cookie already. nginx without its commercial part sets none; it takes what it is given as a key.
pub(crate) fn affinity() -> Case {
    let feature = Feature {
        directives: Directives {
            upstream: "    hash $cookie_route consistent;\n".into(),
            ..Directives::default()
        },
        manifests: Manifests {
            annotations: vec![("affinity", "cookie".into()), ("session-cookie-name", "route".into())],
            ..Manifests::default()
        },
        ..Feature::default()
    };
    Case {
        feature,
        endpoints: ENDPOINTS,
        headers: vec![("Cookie", "{}".into())],
        variants: sessions,
        check: check_affinity,
        ..Case::default()
    }
}

fn sessions(scene: &Scene) -> Result<Vec<String>> {
    (0..SESSIONS).map(|number| session(scene, number)).collect()
}

/// The cookie of a new client. Where none is set, one of the same form.
fn session(scene: &Scene, number: usize) -> Result<String> {
    if scene.peer != Peer::Forebay {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        return Ok(format!("route={key:032x}|{key:032x}"));
    }
    let answer = scene.get("/0", &[])?;
    let cookie = answer.header("Set-Cookie").context("a new client gets no cookie")?;
    let cookie = cookie.split(';').next().unwrap_or_default();
    ensure!(cookie.starts_with("route="), "a new client gets another cookie: {cookie}");
    Ok(cookie.into())
}

fn check_affinity(scene: &Scene) -> Result<()> {
    let asked = |cookie: &str| -> Result<Vec<u64>> {
        let before = Counted::now(scene.backends)?;
        for _ in 0..ASKED {
            scene.get("/0", &[("Cookie", cookie)])?;
        }
        before.since(scene.backends)
    };
    for number in 0..ENDPOINTS {
        let asked = asked(&session(scene, number)?)?;
        ensure!(asked.contains(&ASKED), "one client's requests went to several endpoints: {asked:?}");
    }
    Ok(())
}

//! What a route of the Gateway API asks of requests beside host and path.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use super::{Case, Feature, Manifests, Scene};
use crate::ask::Question;

/// Hosts of a route with the conditions, and of one without.
pub(crate) const CONDITIONAL: &str = "conditional.bench.test";
pub(crate) const UNCONDITIONAL: &str = "unconditional.bench.test";

const HEADERS: [(&str, &str); 8] = [
    ("x-tenant", "blue"),
    ("x-region", "north"),
    ("x-version", "2026-11"),
    ("x-channel", "beta"),
    ("x-device", "desktop"),
    ("x-team", "payments"),
    ("x-feature", "checkout"),
    ("x-stage", "canary"),
];
const PATH: &str = "/1k?a=one&b=two&c=three&d=four&e=five&f=six&g=seven&h=eight";

/// Eight headers and eight parameters, all of which are asked for.
pub(crate) fn conditions_16() -> Case {
    let manifests = Manifests { objects: objects(), ..Manifests::default() };
    Case {
        feature: Feature { manifests, ..Feature::default() },
        path: PATH,
        headers: HEADERS.map(|(name, value)| (name, value.to_owned())).into(),
        check: check_conditions,
        ..Case::default()
    }
}

fn objects() -> String {
    const API: &str = "---\napiVersion: gateway.networking.k8s.io/v1\n";
    let conditions = |names: &[(&str, &str)]| {
        let one = |(name, value): &(&str, &str)| format!("{{name: {name}, value: \"{value}\"}}");
        names.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let parameters: Vec<_> = PATH
        .split_once('?')
        .map(|(_, query)| query.split('&').filter_map(|pair| pair.split_once('=')).collect())
        .unwrap_or_default();
    let matches = format!("headers: [{}], queryParams: [{}]", conditions(&HEADERS), conditions(&parameters));
    let mut yaml = format!(
        "{API}kind: GatewayClass\nmetadata: {{name: bench}}\nspec: {{controllerName: forebay.io/gateway-controller}}\n\
         {API}kind: Gateway\nmetadata: {{name: bench, namespace: default}}\nspec: {{gatewayClassName: bench, \
         listeners: [{{name: http, port: 80, protocol: HTTP}}]}}\n"
    );
    for (name, host, matches) in
        [("conditional", CONDITIONAL, &*matches), ("unconditional", UNCONDITIONAL, "path: {value: /}")]
    {
        let _ = write!(
            yaml,
            "{API}kind: HTTPRoute\nmetadata: {{name: {name}, namespace: default}}\nspec: {{parentRefs: [{{name: bench}}], \
             hostnames: [{host}], rules: [{{matches: [{{{matches}}}], backendRefs: [{{name: web, port: 80}}]}}]}}\n"
        );
    }
    yaml
}

fn check_conditions(scene: &Scene) -> Result<()> {
    let status = |host, headers: &[(&str, &str)]| -> Result<u16> {
        let question = Question { host, path: PATH, headers, ..Question::default() };
        Ok(question.ask(scene.address)?.status)
    };
    let all_but_one = status(CONDITIONAL, &HEADERS[1..])?;
    ensure!(all_but_one == 404, "a request that lacks a header is answered with {all_but_one}");
    for (host, headers) in [(CONDITIONAL, &HEADERS[..]), (UNCONDITIONAL, &[])] {
        let met = status(host, headers)?;
        ensure!(met == 200, "{host} answers {met}");
    }
    Ok(())
}

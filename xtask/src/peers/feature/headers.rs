//! Headers that are added to requests and responses.

use anyhow::{Result, ensure};

use super::{Case, Directives, Feature, Manifests, Scene};
use crate::ask::Question;
use crate::peers::proxy::manifests::{SETTINGS, config_map};

/// What all responses get.
const ADDED: [(&str, &str); 5] = [
    ("X-Frame-Options", "DENY"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "strict-origin-when-cross-origin"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=()"),
    ("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'"),
];
/// What all requests get.
const SET: [(&str, &str); 5] = [
    ("X-Cluster", "blue"),
    ("X-Environment", "production"),
    ("X-Asked-Host", "$host"),
    ("X-Asked-By", "$request_method"),
    ("X-Asked-Scheme", "$scheme"),
];

/// Five in each direction.
pub(crate) fn headers_10() -> Case {
    let lines = |directive: &str, headers: [(&str, &str); 5], end: &str| {
        headers.map(|(name, value)| format!("    {directive} {name} \"{value}\"{end};\n")).concat()
    };
    let map = |name, headers: [(&'static str, &str); 5]| {
        config_map(name, &headers.map(|(name, value)| (name, value.to_owned())))
    };
    let feature = Feature {
        directives: Directives {
            server: lines("add_header", ADDED, " always") + &lines("proxy_set_header", SET, ""),
            ..Directives::default()
        },
        manifests: Manifests {
            settings: vec![
                ("add-headers", format!("{SETTINGS}/added")),
                ("proxy-set-headers", format!("{SETTINGS}/set")),
            ],
            objects: map("added", ADDED) + &map("set", SET),
            ..Manifests::default()
        },
        ..Feature::default()
    };
    Case { feature, check: check_headers, ..Case::default() }
}

fn check_headers(scene: &Scene) -> Result<()> {
    let answer = scene.get("/echo", &[])?;
    for (name, value) in ADDED {
        ensure!(answer.header(name) == Some(value), "{name} is not added to a response: {answer:?}");
    }
    let body = answer.body.to_ascii_lowercase();
    for (name, _) in SET {
        let name = name.to_ascii_lowercase();
        ensure!(body.contains(&format!("\"{name}\"")), "{name} is not set in a request: {}", answer.body);
    }
    Ok(())
}

const ORIGINS: &str = "https://a.example.com, https://*.example.org";
const ORIGIN: &str = "https://shop.example.org";
const METHODS: &str = "GET, PUT, POST, DELETE, PATCH, OPTIONS";
const HEADERS: &str = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization";
const MAX_AGE: &str = "1728000";

/// Two origins in a list. nginx is told so with maps, which are cheaper than ingress-nginx's conditions.
pub(crate) fn cors() -> Case {
    let map =
        |name: &str, value: &str| format!("  map $cors ${name} {{ \"\" \"\"; default \"{value}\"; }}\n");
    let http =
        "  map $http_origin $cors {\n    default \"\"; \"~*^https://a\\.example\\.com$\" $http_origin;\n    \
                \"~*^https://[a-z0-9-]+\\.example\\.org$\" $http_origin;\n  }\n  \
                map \"$request_method $cors\" $preflight { default \"\"; \"~^OPTIONS .\" 1; }\n"
            .to_owned();
    let maps = [("credentials", "true"), ("methods", METHODS), ("headers", HEADERS), ("age", MAX_AGE)];
    let added =
        [("Origin", "cors"), ("Credentials", "credentials"), ("Methods", "methods"), ("Headers", "headers")];
    let allow = added.map(|(name, variable)| {
        format!("      add_header Access-Control-Allow-{name} ${variable} always;\n")
    });
    let feature = Feature {
        directives: Directives {
            http: http + &maps.map(|(name, value)| map(name, value)).concat(),
            location: "      if ($preflight) { return 204; }\n".to_owned()
                + &allow.concat()
                + "      add_header Access-Control-Max-Age $age always;\n",
            ..Directives::default()
        },
        manifests: Manifests {
            annotations: vec![
                ("enable-cors", "true".into()),
                ("cors-allow-origin", ORIGINS.into()),
                ("cors-allow-methods", METHODS.into()),
                ("cors-allow-headers", HEADERS.into()),
                ("cors-max-age", MAX_AGE.into()),
            ],
            ..Manifests::default()
        },
        ..Feature::default()
    };
    Case { feature, headers: vec![("Origin", ORIGIN.into())], check: check_cors, ..Case::default() }
}

fn check_cors(scene: &Scene) -> Result<()> {
    const ALLOW: &str = "Access-Control-Allow-Origin";
    let answer = scene.get("/0", &[("Origin", ORIGIN)])?;
    ensure!(answer.header(ALLOW) == Some(ORIGIN), "an origin of the list is not allowed: {answer:?}");
    let answer = scene.get("/0", &[("Origin", "https://example.net")])?;
    ensure!(answer.header(ALLOW).is_none(), "another origin is allowed: {answer:?}");
    let headers = &[("Origin", ORIGIN)];
    let answer = scene.ask(&Question { method: "OPTIONS", path: "/0", headers, ..Question::default() })?;
    ensure!(answer.status == 204, "a preflight is answered with {}", answer.status);
    Ok(())
}

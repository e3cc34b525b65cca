//! The console in a real browser: every page in light and dark, wide and narrow, with 10,000 routes and names that are meant to break it.
//!
//! Must not be in here: what is looked at; it stands in `testing/console/run.mjs`.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::stage::{Stage, binary};
use crate::child::{Program, free_address};

const LIMIT: Duration = Duration::from_secs(400);

const HOSTS: usize = 1000;
const PATHS: usize = 10;

/// Starts a Forebay of its own, and runs the script.
pub(super) fn run(stage: &Stage) -> Result<String> {
    let (http, admin, origin, tcp) = (free_address()?, free_address()?, free_address()?, free_address()?);
    let manifests = stage.folder.join("console");
    fs::create_dir(&manifests)?;
    fs::write(manifests.join("routes.json"), list(&many_routes()).to_string())?;
    fs::write(manifests.join("few.json"), list(&others(tcp.port())).to_string())?;
    let mut command = Command::new(binary()?);
    command.arg("serve").arg("--manifests").arg(&manifests).args(["--workers", "2"]);
    command.args(["--tcp-services-configmap", "default/tcp-services"]);
    command.args(["--endpoints", &format!("default/web={origin}")]);
    for (flag, address) in
        [("--http-port", http), ("--https-port", free_address()?), ("--healthz-port", admin)]
    {
        command.args([flag, &address.port().to_string()]);
    }
    let mut forebay = Program::start("forebay-console", command, &[], &stage.folder)?;
    forebay.wait_for(http, &stage.interrupt)?;
    let browser = program("chromium").context("chromium is not installed")?;
    let mut command = stage.tools.node_script("console/run.mjs");
    command.arg(stage.tools.node_modules("console")).arg(browser).arg(format!("http://{admin}/console/"));
    command.arg(routes().to_string()).arg(manifests.join("late.json"));
    command.arg(origin.port().to_string()).arg(format!("http://{http}"));
    if let Ok(folder) = std::env::var("FOREBAY_SCREENSHOTS") {
        command.arg(folder);
    }
    let output = stage.output("console", command, LIMIT)?;
    let looked_at = output.lines().filter(|line| line.starts_with("ok: ")).count();
    ensure!(looked_at > 0 && !output.contains("FAILED"), "{output}");
    let figures: Vec<_> = output.lines().filter_map(|line| line.strip_prefix("figure: ")).collect();
    Ok(format!("{looked_at} things in a browser are as they should be; {}", figures.join("; ")))
}

/// Where a program is.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Those of [`many_routes`], and those of [`others`].
fn routes() -> usize {
    let of = |objects: &[Value]| -> usize {
        let rules = objects.iter().filter_map(|one| one["spec"]["rules"].as_array()).flatten();
        rules.filter_map(|rule| rule["http"]["paths"].as_array()).map(Vec::len).sum()
    };
    of(&many_routes()) + of(&others(1))
}

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn ingress(name: &str, annotations: &Value, rules: &[Value]) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"rules": rules},
    })
}

fn rule(host: &str, paths: &[String]) -> Value {
    let path = |path: &String| {
        json!({
            "path": path,
            "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}},
        })
    };
    json!({"host": host, "http": {"paths": paths.iter().map(path).collect::<Vec<_>>()}})
}

fn many_routes() -> Vec<Value> {
    let one = |at: usize| {
        let paths: Vec<_> = (0..PATHS).map(|path| format!("/path-{path}")).collect();
        ingress(&format!("many-{at:05}"), &json!({}), &[rule(&format!("host-{at:05}.test"), &paths)])
    };
    (0..HOSTS).map(one).collect()
}

/// Names that are meant to break a page, one route with annotations that an explanation names, an Ingress with problems, and a TCP service.
fn others(tcp: u16) -> Vec<Value> {
    let mut longest = String::new();
    for _ in 0..3 {
        let _ = write!(longest, "{}.", "l".repeat(63));
    }
    longest.push_str(&"l".repeat(61));
    let hostile = ["/<script>alert(1)</script>", "/\u{202e}txt.exe", "/<img/src=x/onerror=alert(1)>"];
    let hostile: Vec<_> = hostile.into_iter().map(str::to_owned).collect();
    let annotations = json!({
        "nginx.ingress.kubernetes.io/proxy-body-size": "1m",
        "nginx.ingress.kubernetes.io/enable-cors": "true",
        "nginx.ingress.kubernetes.io/proxy-read-timeout": "<b onclick=alert(1)>",
    });
    vec![
        ingress("web", &annotations, &[rule("web.test", &["/".to_owned()])]),
        ingress("hostile", &json!({}), &[rule("hostile.test", &hostile)]),
        ingress("longest", &json!({}), &[rule(&longest, &[format!("/{}", "p".repeat(252))])]),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "tcp-services", "namespace": "default"},
            "data": {tcp.to_string(): "default/web:80"},
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"ports": [{"port": 80}]},
        }),
    ]
}

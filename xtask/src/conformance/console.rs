//! The console in a real browser: every page in light and dark, wide and narrow, with 10,000 routes and names
//! that are meant to break it.
//!
//! Must not be in here: what is looked at; it stands in `testing/console/run.mjs`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::stage::{Stage, forebay};
use crate::child::{Program, free_address};
use crate::template::render_file;

const LIMIT: Duration = Duration::from_secs(400);

const HOSTS: usize = 1000;
const PATHS: usize = 10;
/// Paths of the other Ingresses.
const FEW: usize = 5;

/// Starts a Forebay of its own, and runs the script.
pub(super) fn run(stage: &Stage) -> Result<String> {
    let (http, admin, origin, tcp) = (free_address()?, free_address()?, free_address()?, free_address()?);
    let manifests = stage.folder.join("console");
    fs::create_dir(&manifests)?;
    let values = json!({"hosts": HOSTS, "paths": PATHS, "tcp": tcp.port()});
    for name in ["many.yaml", "few.yaml"] {
        let text = render_file(&format!("conformance/console/{name}"), &values)?;
        fs::write(manifests.join(name), text)?;
    }
    let mut command = forebay(&manifests, http, free_address()?, admin)?;
    command.args(["--tcp-services-configmap", "default/tcp-services"]);
    command.args(["--endpoints", &format!("default/web={origin}")]);
    let mut forebay = Program::start("forebay-console", command, &[], &stage.folder)?;
    forebay.wait_for(http, &stage.interrupt)?;
    let browser = program("chromium").context("chromium is not installed")?;
    let mut command = stage.tools.node_script("console/run.mjs");
    command.arg(stage.tools.node_modules("console")).arg(browser).arg(format!("http://{admin}/console/"));
    command.arg((HOSTS * PATHS + FEW).to_string()).arg(manifests.join("late.json"));
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
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Names and paths of the Ingresses of a file.
    fn ingresses(name: &str) -> Vec<(String, Vec<String>)> {
        let values = json!({"hosts": 101, "paths": PATHS, "tcp": 1});
        let text = render_file(&format!("conformance/console/{name}"), values).expect("a template");
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        let ingresses = documents.into_iter().filter(|one| one["kind"] == "Ingress").map(|one| {
            let paths = one["spec"]["rules"][0]["http"]["paths"].as_array().expect("paths").clone();
            let paths = paths.iter().map(|path| path["path"].as_str().expect("a path").to_owned()).collect();
            (one["metadata"]["name"].as_str().expect("a name").to_owned(), paths)
        });
        ingresses.collect()
    }

    #[test]
    fn there_are_as_many_routes_as_the_script_is_told() {
        let many = ingresses("many.yaml");
        assert_eq!((many.len(), many[100].0.as_str()), (101, "many-00100"));
        assert!(many.iter().all(|(_, paths)| paths.len() == PATHS));
        let few = ingresses("few.yaml");
        assert_eq!(few.iter().map(|(_, paths)| paths.len()).sum::<usize>(), FEW);
        assert_eq!(few[1].1[1], "/\u{202e}txt.exe");
        assert_eq!(few[2].1[0].len(), 253);
    }
}

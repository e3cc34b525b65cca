//! Sign-in at npm's `oidc-provider`: by a client that keeps cookies, and in a real browser.
//!
//! Must not be in here: what is looked at; it stands in `testing/oidc/run.mjs`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::console::program;
use super::dex;
use super::stage::Stage;
use crate::child::free_address;
use crate::template::render_file;

const LIMIT: Duration = Duration::from_secs(180);

/// Adds the Ingresses to those of the stage, and runs the script, which is the provider too.
pub(super) fn run(stage: &Stage) -> Result<String> {
    let provider = free_address()?;
    let values = json!({"issuer": format!("http://{provider}")});
    fs::write(stage.folder.join("manifests/oidc.yaml"), render_file("conformance/oidc.yaml", values)?)?;
    let browser = program("chromium").context("chromium is not installed")?;
    let mut command = stage.tools.node_script("oidc/run.mjs");
    command.arg(stage.tools.node_modules("oidc")).arg(stage.http.to_string()).arg(stage.https.to_string());
    command.arg(provider.port().to_string()).arg(stage.tools.node_modules("console")).arg(browser);
    let output = stage.output("oidc", command, LIMIT)?;
    let looked_at = output.lines().filter(|line| line.starts_with("ok: ")).count();
    ensure!(looked_at > 0 && !output.contains("FAILED"), "{output}");
    let at_dex = dex::run(stage)?;
    Ok(format!("{looked_at} things about sign-in at oidc-provider and {at_dex} at Dex are as they should be"))
}

//! Sign-in at Dex, whose users are those of another provider: here one that lets everybody in.
//!
//! Must not be in here: what is looked at; it stands in `testing/oidc/dex.mjs`.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::stage::Stage;
use crate::child::{Program, free_address};
use crate::template::render_file;

const LIMIT: Duration = Duration::from_secs(120);

/// Seconds of Dex's tokens.
const SECONDS: u64 = 8;

/// Runs Dex and the script. Returns how many things were looked at.
pub(super) fn run(stage: &Stage) -> Result<usize> {
    let address = free_address()?;
    let issuer = format!("http://{address}/dex");
    let settings = json!({
        "issuer": issuer,
        "storage": {"type": "memory"},
        "web": {"http": address.to_string()},
        "connectors": [{"type": "mockCallback", "id": "mock", "name": "Mock"}],
        "oauth2": {"skipApprovalScreen": true},
        "expiry": {"idTokens": format!("{SECONDS}s")},
        "staticClients": [{
            "id": "forebay", "secret": "a secret of Dex", "name": "Forebay",
            "redirectURIs": ["https://dex.test/oauth2/callback"],
        }],
    });
    let file = stage.folder.join("dex.json");
    fs::write(&file, settings.to_string())?;
    let mut command = stage.tools.dex()?;
    command.arg("serve").arg(&file);
    let mut dex = Program::start("dex", command, &[], &stage.folder)?;
    dex.wait_for(address, &stage.interrupt)?;
    fs::write(
        stage.folder.join("manifests/dex.yaml"),
        render_file("conformance/dex.yaml", json!({"issuer": issuer}))?,
    )?;
    let mut command = stage.tools.node_script("oidc/dex.mjs");
    command.arg(stage.https.to_string()).arg(SECONDS.to_string());
    let output = stage.output("dex-client", command, LIMIT)?;
    let looked_at = output.lines().filter(|line| line.starts_with("ok: ")).count();
    ensure!(looked_at > 0 && !output.contains("FAILED"), "{output}");
    Ok(looked_at)
}

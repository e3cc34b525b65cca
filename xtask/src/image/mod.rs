//! `cargo xtask image`: the container image, made of the static binary without a container daemon, for every
//! architecture that this machine can build for; and `cargo xtask image-test`, which runs it.
//!
//! The same commit makes the same digest: nothing in it says when and where it was made. Must not be in
//! here: registries. `skopeo`, `crane`,
//! `docker` and `ctr` take it there.

mod bundle;
mod container;
mod core_rules;
mod files;
mod layout;
mod trial;
mod unpack;

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::dist::What;
use crate::dist::documents::Documents;
use crate::dist::output::Output;
use crate::dist::release::Release;
use crate::dist::target::{Architecture, Binary, Target};
use core_rules::CoreRules;
use layout::{Image, Layout};

pub(crate) use trial::{Arguments as TestArguments, run as test};

/// Options of `cargo xtask image`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    what: What,
    /// Name and tag [default: forebay and the version].
    #[arg(long, value_name = "NAME:TAG")]
    name: Option<String>,
    /// The unpacked Go module with the OWASP core rules [default: what testing/waf pins, by Go].
    #[arg(long, value_name = "DIR")]
    core_rules: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let what = &arguments.what;
    let release = what.release()?;
    let name = arguments.name.clone().unwrap_or_else(|| format!("forebay:{}", release.version));
    let output = Output::open(&what.output)?;
    let core_rules = CoreRules::find(arguments.core_rules.as_deref())?;
    println!("OWASP core rules {}", core_rules.version);
    let images: Vec<_> = what
        .binaries(&release)?
        .iter()
        .map(|(target, binary)| build(&release, *target, binary, &core_rules))
        .collect::<Result<_>>()?;
    for image in &images {
        let one = Layout { release: &release, name: &name, images: std::slice::from_ref(image) };
        let path = output.write(&file_name(&release, Some(image.architecture())), &one.tar()?)?;
        report(&path, &image.digest(), image.size());
    }
    if images.len() > 1 {
        let all = Layout { release: &release, name: &name, images: &images };
        let path = output.write(&file_name(&release, None), &all.tar()?)?;
        report(&path, &all.digest()?, images.iter().map(Image::size).sum());
    }
    output.write_sums()?;
    Ok(())
}

/// The image of a binary.
fn build(release: &Release, target: Target, binary: &Binary, core_rules: &CoreRules) -> Result<Image> {
    let documents = Documents::find(release, target)?;
    let rules = format!("OWASP core rules {}", core_rules.version);
    let layers = [
        (&*rules, core_rules.files.clone()),
        ("users, certificate authorities, licences", files::base(&documents)),
        ("the binary", files::binary(binary, &documents)),
    ];
    Image::new(release, target.architecture, &layers)
}

/// The file of the image for one architecture, or for all.
fn file_name(release: &Release, architecture: Option<Architecture>) -> String {
    let suffix = architecture.map(|it| format!("-{}", it.name())).unwrap_or_default();
    format!("forebay-{}-image{suffix}.tar", release.version)
}

fn report(file: &Path, digest: &str, size: usize) {
    println!("{}  {digest}  {:.1} MB", file.display(), size as f64 / 1e6);
}

//! `cargo xtask dist`: what people install, in one folder: archives with a static binary, Debian packages,
//! bills of materials, and the sums of all of them. `cargo xtask image` puts its images there too.
//!
//! The same commit makes the same files: nothing says when and by whom they were made. Must not be in here:
//! container images (`image`).

mod architecture;
mod contents;
mod deb;
pub(crate) mod documents;
mod elf;
pub(crate) mod hex;
mod notices;
pub(crate) mod output;
mod packages;
mod pages;
pub(crate) mod release;
mod sbom;
pub(crate) mod target;
pub(crate) mod tree;

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};

use contents::Build;
use deb::Deb;
use documents::Documents;
use output::Output;
use release::Release;
use target::{Architecture, Binary, Target};

/// Options of `cargo xtask dist`: the binaries to pack, and the folder for the packages.
#[derive(clap::Args)]
pub(crate) struct What {
    /// Machines to build for [default: all for which this machine has compilers].
    #[arg(long, value_delimiter = ',')]
    architecture: Vec<Architecture>,
    /// A static binary that is there already, instead of building one. May be given once for each
    /// architecture.
    #[arg(long, value_name = "PATH", conflicts_with = "architecture")]
    binary: Vec<PathBuf>,
    /// The folder of what is made.
    #[arg(long, value_name = "PATH", default_value = "dist")]
    pub(crate) output: PathBuf,
    /// URL of the source, for labels.
    #[arg(long, value_name = "URL")]
    source: Option<String>,
}

pub(crate) fn run(what: &What) -> Result<()> {
    let release = what.release()?;
    let output = Output::open(&what.output)?;
    let binaries = what.binaries(&release)?;
    let pages = pages::of_any(&binaries)?;
    for (target, binary) in &binaries {
        let documents = Documents::find(&release, *target)?;
        let name = format!("forebay-{}-linux-{}", release.version, target.architecture.name());
        let build = Build { release: &release, binary, documents: &documents, pages: &pages };
        let archive = build.tree("archive")?;
        let archive = tree::gzip(&archive.tar(&format!("{name}/"), release.time)?)?;
        let files = build.tree("installed")?;
        let scripts = deb::scripts(&release)?;
        let architecture = target.architecture;
        let deb = Deb { release: &release, architecture, files: &files, scripts: &scripts };
        for (name, content) in [
            (format!("{name}.tar.gz"), archive),
            (format!("{name}.cdx.json"), documents.bill.into_bytes()),
            (deb.name(), deb.build()?),
        ] {
            println!("{}", output.write(&name, &content)?.display());
        }
    }
    println!("{}", output.write_sums()?.display());
    Ok(())
}

impl What {
    /// The release that is shipped.
    pub(crate) fn release(&self) -> Result<Release> {
        Release::find(self.source.as_deref())
    }

    /// The binaries, all of them static, in the order of their architectures. Says which ones cannot be had,
    /// and what is missing for them.
    pub(crate) fn binaries(&self, release: &Release) -> Result<Vec<(Target, Binary)>> {
        let mut binaries = if self.binary.is_empty() { self.build(release)? } else { self.given()? };
        binaries.sort_by_key(|(target, _)| target.architecture);
        Ok(binaries)
    }

    fn build(&self, release: &Release) -> Result<Vec<(Target, Binary)>> {
        let is_asked_for = !self.architecture.is_empty();
        let architectures = if is_asked_for { &self.architecture[..] } else { &Architecture::ALL };
        let mut targets = Vec::new();
        for architecture in architectures {
            let target = Target { architecture: *architecture };
            let missing = target.missing()?;
            if missing.is_empty() {
                targets.push(target);
                continue;
            }
            let missing = format!("{}: this machine lacks {}", architecture.name(), missing.join(", and "));
            ensure!(!is_asked_for, missing);
            eprintln!("warning: left out: {missing}");
        }
        ensure!(!targets.is_empty(), "there is no architecture that this machine can build for");
        targets.into_iter().map(|target| Ok((target, target.build(release)?))).collect()
    }

    fn given(&self) -> Result<Vec<(Target, Binary)>> {
        let mut binaries: Vec<(Target, Binary)> = Vec::new();
        for path in &self.binary {
            let binary = Binary::read(path)?;
            binary.must_be_static()?;
            let target = Target { architecture: binary.elf.architecture };
            if let Some((_, other)) = binaries.iter().find(|(it, _)| it.architecture == target.architecture) {
                let name = target.architecture.name();
                bail!("{} and {} are both for {name}", other.path.display(), path.display());
            }
            binaries.push((target, binary));
        }
        Ok(binaries)
    }
}

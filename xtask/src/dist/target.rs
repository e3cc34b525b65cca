//! The target of a binary, the tools that its build needs on this machine, and the build.
//!
//! A binary that ships is static: an image then needs no system below it, and a package fits every
//! distribution. Must not be in here: what becomes of the binary.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::elf::Elf;
use super::release::Release;
use crate::child::{cargo, is_installed, succeed};
use crate::proxies::target_folder;

pub(crate) use super::architecture::Architecture;

/// A target of a build: an architecture, with the GNU C Library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The architecture of the processor.
    pub(crate) architecture: Architecture,
}

/// A program that has been built, or that was given.
#[derive(Debug)]
pub(crate) struct Binary {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// All of it.
    pub(crate) content: Vec<u8>,
    /// Its ELF head.
    pub(crate) elf: Elf,
}

impl Target {
    /// Rust's name of it.
    pub(crate) fn triple(self) -> String {
        format!("{}-unknown-linux-gnu", self.architecture.machine())
    }

    /// The C compiler.
    pub(crate) fn compiler(self) -> String {
        if self.architecture.is_native() {
            return "cc".into();
        }
        format!("{}-linux-gnu-gcc", self.architecture.machine())
    }

    /// Debian's packages that bring the C compiler.
    fn compiler_packages(self) -> String {
        if self.architecture.is_native() {
            return "gcc make".into();
        }
        let debian = self.architecture.machine().replace('_', "-");
        format!("gcc-{debian}-linux-gnu libc6-dev-{}-cross", self.architecture.name())
    }

    /// The missing tools for a build, each with the command that installs it.
    pub(crate) fn missing(self) -> Result<Vec<String>> {
        let (triple, mut missing) = (self.triple(), Vec::new());
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", &triple]);
        let output = rustc.output().context("cannot start rustc: install Rust 1.95 or later with rustup")?;
        if !Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir() {
            missing.push(format!("Rust's standard library for {triple} (`rustup target add {triple}`)"));
        }
        let compiler = self.compiler();
        if !is_installed(&compiler) {
            let packages = self.compiler_packages();
            missing.push(format!("the C compiler {compiler} (`apt-get install {packages}`)"));
        }
        Ok(missing)
    }

    /// Builds it, which takes ten minutes on two cores the first time.
    pub(crate) fn build(self, release: &Release) -> Result<Binary> {
        let (triple, folder) = (self.triple(), target_folder()?);
        let mut cargo = cargo();
        cargo.current_dir(&release.root).args(["build", "--locked", "--release", "--package", "forebay"]);
        cargo.args(["--target", &triple]).arg("--target-dir").arg(&folder);
        // Panics still name the functions; the lines are in a binary of `make release`.
        cargo.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
        cargo.envs(self.variables(release));
        eprintln!("building for {triple}");
        succeed(&mut cargo)?;
        let binary = Binary::read(&folder.join(&triple).join("release/forebay"))?;
        binary.must_be_static()?;
        Ok(binary)
    }

    /// Environment variables for the compilers.
    fn variables(self, release: &Release) -> Vec<(String, OsString)> {
        let triple = self.triple();
        let (lower, upper) = (triple.replace('-', "_"), triple.replace('-', "_").to_uppercase());
        // The folders of whoever builds must not make a difference.
        let home = cargo_home();
        let root = release.root.display().to_string();
        let (rust, c) = ("--remap-path-prefix=", "-ffile-prefix-map=");
        let compiler = self.compiler();
        let mut variables: Vec<(String, OsString)> = vec![
            (
                format!("CARGO_TARGET_{upper}_RUSTFLAGS"),
                format!("-Ctarget-feature=+crt-static {rust}{root}=/forebay {rust}{home}=/cargo").into(),
            ),
            (format!("CFLAGS_{lower}"), format!("{c}{root}=/forebay {c}{home}=/cargo").into()),
            (format!("CARGO_TARGET_{upper}_LINKER"), compiler.clone().into()),
            (format!("CC_{lower}"), compiler.into()),
        ];
        if let Some(revision) = &release.revision {
            variables.push(("FOREBAY_BUILD".into(), revision.into()));
        }
        if self.architecture == Architecture::Arm64 {
            // Kernels for Arm have pages of 4, 16 or 64 KiB. jemalloc runs on pages that are no larger than
            // those that it was built for.
            variables.push(("JEMALLOC_SYS_WITH_LG_PAGE".into(), "16".into()));
        }
        variables
    }
}

impl Binary {
    /// Reads a program and its head.
    pub(crate) fn read(path: &Path) -> Result<Binary> {
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let elf = Elf::parse(&content).with_context(|| path.display().to_string())?;
        Ok(Binary { path: path.into(), content, elf })
    }

    /// An error where it needs libraries, of which an image has none.
    pub(crate) fn must_be_static(&self) -> Result<()> {
        if let Some(interpreter) = &self.elf.interpreter {
            bail!(
                "{} is linked dynamically: it needs {interpreter} and a C library. `make dist` builds a static one",
                self.path.display()
            );
        }
        Ok(())
    }
}

/// Where the sources of others are.
fn cargo_home() -> String {
    let own = || std::env::home_dir().unwrap_or_default().join(".cargo").into_os_string();
    std::env::var_os("CARGO_HOME").unwrap_or_else(own).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_its_compiler() {
        let foreign = Architecture::ALL.into_iter().find(|one| !one.is_native()).unwrap();
        let target = Target { architecture: foreign };
        let (program, packages) = (target.compiler(), target.compiler_packages());
        assert!(program.ends_with("-linux-gnu-gcc"), "{program}");
        assert!(packages.contains(&format!("libc6-dev-{}-cross", foreign.name())), "{packages}");
    }

    #[test]
    fn jemalloc_for_arm_is_built_for_the_largest_pages() {
        let release = Release::of_tests();
        let variables = |architecture| Target { architecture }.variables(&release);
        let has =
            |list: Vec<(String, OsString)>| list.iter().any(|(name, _)| name == "JEMALLOC_SYS_WITH_LG_PAGE");
        assert!(has(variables(Architecture::Arm64)));
        assert!(!has(variables(Architecture::Amd64)));
    }

    #[test]
    fn a_dynamic_binary_is_refused() {
        let binary = Binary::read(&std::env::current_exe().unwrap()).unwrap();
        let error = binary.must_be_static().unwrap_err().to_string();
        assert!(error.contains("is linked dynamically"), "{error}");
        let error = Binary::read(Path::new("/dev/null")).unwrap_err();
        assert_eq!(format!("{error:#}"), "/dev/null: not a program for Linux");
    }
}

//! What a binary is built for, what this machine has to have for it, and the build.
//!
//! A binary that ships is static: an image then needs no system below it, and a package fits every distribution. Must not be in here: what
//! becomes of the binary.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::elf::Elf;
use super::release::Release;

/// A kind of machine, as container images and Debian call it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, clap::ValueEnum)]
pub(crate) enum Architecture {
    /// x86-64.
    Amd64,
    /// `AArch64`.
    Arm64,
}

/// The C library that is built in.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Libc {
    /// The GNU C Library.
    Gnu,
    /// musl.
    Musl,
}

/// Both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// The machine.
    pub(crate) architecture: Architecture,
    /// The C library.
    pub(crate) libc: Libc,
}

/// A program that has been built, or that was given.
#[derive(Debug)]
pub(crate) struct Binary {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// All of it.
    pub(crate) content: Vec<u8>,
    /// What its head says.
    pub(crate) elf: Elf,
}

impl Architecture {
    /// All that binaries are made for.
    pub(crate) const ALL: [Architecture; 2] = [Architecture::Amd64, Architecture::Arm64];

    /// Its name in images, packages and file names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Architecture::Amd64 => "amd64",
            Architecture::Arm64 => "arm64",
        }
    }

    /// Its name in targets of Rust and C.
    fn machine(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64",
            Architecture::Arm64 => "aarch64",
        }
    }

    /// Whether it is this machine's.
    pub(crate) fn is_native(self) -> bool {
        self.machine() == std::env::consts::ARCH
    }
}

impl Target {
    /// Rust's name of it.
    pub(crate) fn triple(self) -> String {
        let libc = match self.libc {
            Libc::Gnu => "gnu",
            Libc::Musl => "musl",
        };
        format!("{}-unknown-linux-{libc}", self.architecture.machine())
    }

    /// The C compiler, and what brings it on Debian; `None` where nothing of Debian's does.
    pub(crate) fn compiler(self) -> Option<(String, String)> {
        let machine = self.architecture.machine();
        match (self.libc, self.architecture.is_native()) {
            (Libc::Gnu, true) => Some(("cc".into(), "gcc and make".into())),
            (Libc::Gnu, false) => {
                let debian = machine.replace('_', "-");
                let library = format!("libc6-dev-{}-cross", self.architecture.name());
                Some((format!("{machine}-linux-gnu-gcc"), format!("gcc-{debian}-linux-gnu and {library}")))
            }
            (Libc::Musl, true) => Some(("musl-gcc".into(), "musl-tools".into())),
            (Libc::Musl, false) => None,
        }
    }

    /// What this machine lacks to build for it, with the command that brings it; empty if nothing.
    pub(crate) fn missing(self) -> Result<Vec<String>> {
        let (triple, mut missing) = (self.triple(), Vec::new());
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", &triple]);
        let output = rustc.output().context("cannot start rustc: install Rust 1.95 or later with rustup")?;
        if !Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir() {
            missing.push(format!("Rust's standard library for {triple} (`rustup target add {triple}`)"));
        }
        match self.compiler() {
            Some((program, _)) if is_installed(&program) => {}
            Some((program, packages)) => {
                let packages = packages.replace(" and", "");
                missing.push(format!("the C compiler {program} (`apt-get install {packages}`)"));
            }
            None => missing.push(format!(
                "a C compiler for {triple}, which Debian does not have; `--libc gnu` needs another one"
            )),
        }
        Ok(missing)
    }

    /// Builds it, which takes ten minutes on two cores the first time.
    pub(crate) fn build(self, release: &Release) -> Result<Binary> {
        let (triple, folder) = (self.triple(), target_folder(&release.root));
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&release.root).args(["build", "--locked", "--release", "--package", "forebay"]);
        cargo.args(["--target", &triple]).arg("--target-dir").arg(&folder);
        // Panics still name the functions; the lines are in a binary of `make release`.
        cargo.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
        cargo.envs(self.variables(release));
        eprintln!("building for {triple}");
        let status = cargo.status().context("cannot start cargo")?;
        ensure!(status.success(), "cargo could not build for {triple}: {status}");
        let binary = Binary::read(&folder.join(&triple).join("release/forebay"))?;
        binary.must_be_static()?;
        Ok(binary)
    }

    /// What compilers have to be told.
    fn variables(self, release: &Release) -> Vec<(String, OsString)> {
        let triple = self.triple();
        let (lower, upper) = (triple.replace('-', "_"), triple.replace('-', "_").to_uppercase());
        // The folders of whoever builds must not make a difference.
        let home = cargo_home();
        let root = release.root.display().to_string();
        let (rust, c) = ("--remap-path-prefix=", "-ffile-prefix-map=");
        let mut variables: Vec<(String, OsString)> = vec![
            (
                format!("CARGO_TARGET_{upper}_RUSTFLAGS"),
                format!("-Ctarget-feature=+crt-static {rust}{root}=/forebay {rust}{home}=/cargo").into(),
            ),
            (format!("CFLAGS_{lower}"), format!("{c}{root}=/forebay {c}{home}=/cargo").into()),
        ];
        if let Some(revision) = &release.revision {
            variables.push(("FOREBAY_BUILD".into(), revision.into()));
        }
        if let Some((compiler, _)) = self.compiler() {
            variables.push((format!("CARGO_TARGET_{upper}_LINKER"), compiler.clone().into()));
            variables.push((format!("CC_{lower}"), compiler.into()));
        }
        if self.architecture == Architecture::Arm64 {
            // Kernels for Arm have pages of 4, 16 or 64 KiB. jemalloc runs on pages that are no larger than those that it was built for.
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

/// Where cargo builds.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Where the sources of others are.
fn cargo_home() -> String {
    let own = || std::env::home_dir().unwrap_or_default().join(".cargo").into_os_string();
    std::env::var_os("CARGO_HOME").unwrap_or_else(own).to_string_lossy().into_owned()
}

/// Whether a program is found.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_its_compiler() {
        let foreign = Architecture::ALL.into_iter().find(|one| !one.is_native()).unwrap();
        let target = Target { architecture: foreign, libc: Libc::Gnu };
        let (program, packages) = target.compiler().unwrap();
        assert!(program.ends_with("-linux-gnu-gcc"), "{program}");
        assert!(packages.contains(&format!("libc6-dev-{}-cross", foreign.name())), "{packages}");
        assert_eq!(Target { architecture: foreign, libc: Libc::Musl }.compiler(), None);
    }

    #[test]
    fn jemalloc_for_arm_is_built_for_the_largest_pages() {
        let release = Release::of_tests();
        let variables = |architecture| Target { architecture, libc: Libc::Gnu }.variables(&release);
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

//! The programs of others: built or fetched into the user's cache where they are not there yet, pinned by version and hash in
//! `testing/`.
//!
//! Must not be in here: what is done with them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Where everything is.
pub(super) struct Tools {
    /// The folder `testing`.
    pub(super) testing: PathBuf,
    cache: PathBuf,
}

/// Names of programs, and the packages that `testing/tools/go.mod` pins.
const GO_PROGRAMS: &[(&str, &str)] = &[
    ("h2spec", "github.com/summerwind/h2spec/cmd/h2spec"),
    ("grpc-interop-client", "google.golang.org/grpc/interop/client"),
    ("grpc-interop-server", "google.golang.org/grpc/interop/server"),
    ("oauth2-proxy", "github.com/oauth2-proxy/oauth2-proxy/v7"),
];

impl Tools {
    /// Has all of them at hand.
    pub(super) fn install() -> Result<Tools> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace's folder")?;
        let mut programs = Command::new(root.join("testing/programs"));
        programs.args(["cargo xtask conformance", "build", "conformance"]);
        ensure!(programs.status()?.success(), "the suites of others need programs of others");
        let tools = Tools { testing: root.join("testing"), cache: cluster::cache()?.join("tools") };
        tools.build_go()?;
        tools.fetch_node("websocket", "node", "ws")?;
        tools.fetch_node("http-cache", "http-cache", "http-cache-tests")?;
        tools.fetch_node("console", "console", "playwright-core")?;
        if tools.php_fpm().is_err() {
            tools.fetch_debian("php", "php-fpm")?;
        }
        Ok(tools)
    }

    /// A program that was built from `testing/tools/go.mod`.
    pub(super) fn go_program(&self, name: &str) -> Command {
        Command::new(self.cache.join("bin").join(name))
    }

    /// A script in `testing`, run by Node.
    pub(super) fn node_script(&self, path: &str) -> Command {
        let mut command = Command::new("node");
        command.arg(self.testing.join(path)).env("NODE_PATH", self.cache.join("node/node_modules"));
        command
    }

    /// Go's own cache makes this a matter of a second where nothing has changed.
    fn build_go(&self) -> Result<()> {
        for (name, package) in GO_PROGRAMS {
            let mut command = Command::new("go");
            command.current_dir(self.testing.join("tools"));
            // The toolchain that is there, and nothing that is not in go.sum.
            command.args(["build", "-buildvcs=false", "-mod=readonly", "-o"]);
            command.arg(self.cache.join("bin").join(name)).arg(package);
            must_succeed(command)?;
        }
        Ok(())
    }

    /// The packages that a folder of the cache holds.
    pub(super) fn node_modules(&self, folder: &str) -> PathBuf {
        self.cache.join(folder).join("node_modules")
    }

    /// Fetches what the lock file in a folder of `testing` pins, `package` among it.
    fn fetch_node(&self, from: &str, to: &str, package: &str) -> Result<()> {
        let (from, to) = (self.testing.join(from), self.cache.join(to));
        fs::create_dir_all(&to)?;
        let lock = fs::read(from.join("package-lock.json"))
            .with_context(|| from.join("package-lock.json").display().to_string())?;
        let is_there = to.join("node_modules").join(package).is_dir();
        if is_there && fs::read(to.join("package-lock.json")).is_ok_and(|there| there == lock) {
            return Ok(());
        }
        for file in ["package.json", "package-lock.json"] {
            fs::copy(from.join(file), to.join(file))?;
        }
        let mut command = Command::new("npm");
        command.current_dir(&to).args(["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]);
        must_succeed(command)
    }
}

/// Programs of the Debian that is there: unpacked into the cache with what they need and the machine does not have.
impl Tools {
    /// PHP-FPM, with its libraries.
    pub(super) fn php_fpm(&self) -> Result<Command> {
        let folder = self.cache.join("php");
        let mut programs: Vec<PathBuf> = Vec::new();
        for sbin in [folder.join("usr/sbin"), PathBuf::from("/usr/sbin")] {
            let Ok(entries) = fs::read_dir(sbin) else { continue };
            let entries = entries.filter_map(|entry| Some(entry.ok()?.path()));
            programs.extend(entries.filter(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("php-fpm"))
            }));
        }
        let program = programs.into_iter().next().context("there is no php-fpm")?;
        Ok(with_libraries(&program, &folder))
    }

    /// Unpacks a package, and what it needs beside what is installed, into a folder of the cache.
    fn fetch_debian(&self, folder: &str, package: &str) -> Result<()> {
        let (folder, beside) = (self.cache.join(folder), self.cache.join(format!("{folder}.part")));
        let _ = fs::remove_dir_all(&beside);
        fs::create_dir_all(beside.join("packages"))?;
        let output = Command::new("apt-get")
            .args(["install", "--print-uris", "-qq", "--no-install-recommends", package])
            .output()
            .with_context(|| format!("cannot ask apt-get for {package}"))?;
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        // 'URI' NAME_VERSION_ARCHITECTURE.deb SIZE HASH
        let names = listed.lines().filter_map(|line| line.split(' ').nth(1)?.split('_').next());
        let mut command = Command::new("apt-get");
        command.current_dir(beside.join("packages")).args(["download", "-qq"]).args(names);
        must_succeed(command).with_context(|| format!("Debian's {package}"))?;
        for file in fs::read_dir(beside.join("packages"))? {
            let mut command = Command::new("dpkg");
            command.arg("-x").arg(file?.path()).arg(&beside);
            must_succeed(command)?;
        }
        let _ = fs::remove_dir_all(&folder);
        Ok(fs::rename(beside, folder)?)
    }
}

/// A program with the libraries that were unpacked beside it.
fn with_libraries(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    let libraries = folder.join("usr/lib").join(format!("{}-linux-gnu", env::consts::ARCH));
    command.env("LD_LIBRARY_PATH", libraries);
    command
}

fn must_succeed(mut command: Command) -> Result<()> {
    let output =
        command.output().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    bail!("{command:?} ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stderr))
}

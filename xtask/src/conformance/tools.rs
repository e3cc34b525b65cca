//! The programs of others: built or fetched into the user's cache where they are not there yet, pinned by
//! version and hash in
//! `testing/`.
//!
//! Must not be in here: what is done with them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cached::fill;
use crate::child::{output, root, succeed};

/// Where everything is.
pub(super) struct Tools {
    /// The folder `testing`.
    pub(super) testing: PathBuf,
    cache: PathBuf,
}

/// Names of programs, the folder of `testing` whose `go.mod` pins each, and its package.
const GO_PROGRAMS: &[(&str, &str, &str)] = &[
    ("h2spec", "tools", "github.com/summerwind/h2spec/cmd/h2spec"),
    ("grpc-interop-client", "tools", "google.golang.org/grpc/interop/client"),
    ("grpc-interop-server", "tools", "google.golang.org/grpc/interop/server"),
    ("oauth2-proxy", "tools", "github.com/oauth2-proxy/oauth2-proxy/v7"),
    ("pebble", "acme", "github.com/letsencrypt/pebble/v2/cmd/pebble"),
    ("connectconformance", "connectrpc", "connectrpc.com/conformance/cmd/connectconformance"),
    ("referenceserver", "connectrpc", "connectrpc.com/conformance/cmd/referenceserver"),
    ("connectrpc-server", "connectrpc", "."),
    ("clients-origin", "clients", "./origin"),
    ("clients-go", "clients", "./go"),
    ("pebble-challtestsrv", "acme", "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv"),
];

impl Tools {
    /// Builds or fetches all of them, where they are not in the cache.
    pub(super) fn install() -> Result<Tools> {
        let testing = root().join("testing");
        let mut programs = Command::new(testing.join("programs"));
        succeed(programs.args(["cargo xtask conformance", "build", "conformance"]))
            .context("the suites of others need programs of others")?;
        let tools = Tools { testing, cache: cluster::cache()?.join("tools") };
        tools.build_go()?;
        tools.build_quic_go()?;
        tools.fetch_node("websocket", "node", "ws")?;
        tools.fetch_node("hpack", "hpack", "hpack")?;
        tools.fetch_node("http-cache", "http-cache", "http-cache-tests")?;
        tools.fetch_node("console", "console", "playwright-core")?;
        tools.fetch_node("oidc", "oidc", "oidc-provider")?;
        tools.fetch_node("clients", "clients", "undici")?;
        for folder in ["http3", "clients", "lint"] {
            tools.fetch_python(folder)?;
        }
        if tools.php_fpm().is_err() {
            tools.fetch_debian("php", "php-fpm")?;
        }
        Ok(tools)
    }

    /// A program that was built from a `go.mod` in `testing`.
    pub(super) fn go_program(&self, name: &str) -> Command {
        Command::new(self.cache.join("bin").join(name))
    }

    /// A script in `testing`, run by Node.
    pub(super) fn node_script(&self, path: &str) -> Command {
        let mut command = Command::new("node");
        command.arg(self.testing.join(path)).env("NODE_PATH", self.cache.join("node/node_modules"));
        command
    }

    /// A script in `testing`, run by Python with the packages of a folder of the cache.
    pub(super) fn python_script(&self, path: &str, packages: &str) -> Command {
        let mut command = Command::new("python3");
        command.arg(self.testing.join(path)).env("PYTHONPATH", self.cache.join("python").join(packages));
        command
    }

    /// Fetches what the requirements in a folder of `testing` pin.
    fn fetch_python(&self, folder: &str) -> Result<()> {
        let requirements = self.testing.join(folder).join("requirements.txt");
        let pinned = fs::read(&requirements).with_context(|| requirements.display().to_string())?;
        let to = self.cache.join("python").join(folder);
        let copy = to.join("requirements.txt");
        if fs::read(&copy).is_ok_and(|there| there == pinned) {
            return Ok(());
        }
        let mut command = Command::new("python3");
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        command.args(["--upgrade", "--only-binary", ":all:", "--require-hashes", "--target"]).arg(&to);
        output(command.arg("--requirement").arg(&requirements))?;
        // Written last, so that what was fetched in part is fetched again.
        fs::write(&copy, pinned).with_context(|| copy.display().to_string())
    }

    /// Go's own cache makes this a matter of a second where nothing has changed.
    fn build_go(&self) -> Result<()> {
        for (name, folder, package) in GO_PROGRAMS {
            let mut command = Command::new("go");
            command.current_dir(self.testing.join(folder));
            // The toolchain that is there, and nothing that is not in go.sum.
            command.args(["build", "-buildvcs=false", "-mod=readonly", "-o"]);
            command.arg(self.cache.join("bin").join(name)).arg(package);
            output(&mut command)?;
        }
        Ok(())
    }

    /// The client with quic-go, which has a module of its own: its language is newer than that of the others.
    fn build_quic_go(&self) -> Result<()> {
        let mut command = Command::new("go");
        command.current_dir(self.testing.join("http3/quic-go"));
        command.args(["build", "-buildvcs=false", "-mod=readonly", "-o"]).arg(self.quic_go()).arg(".");
        output(&mut command).map(drop)
    }

    /// The client with quic-go.
    pub(super) fn quic_go(&self) -> PathBuf {
        self.cache.join("bin/quic-go-client")
    }

    /// Dex, built from `testing/tools/dex`. One of its stores is written in C.
    pub(super) fn dex(&self) -> Result<Command> {
        let program = self.cache.join("bin/dex");
        let mut command = Command::new("go");
        command.current_dir(self.testing.join("tools/dex")).env("CGO_ENABLED", "1");
        command.args(["build", "-buildvcs=false", "-mod=readonly", "-o"]).arg(&program);
        output(command.arg("github.com/dexidp/dex/cmd/dex"))?;
        Ok(Command::new(program))
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
        output(&mut command).map(drop)
    }
}

/// Programs of the Debian that is there: unpacked into the cache with what they need and the machine does not
/// have.
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
        fill(&self.cache.join(folder), |beside| {
            let packages = beside.join("packages");
            fs::create_dir(&packages)?;
            let mut command = Command::new("apt-get");
            command.args(["install", "--print-uris", "-qq", "--no-install-recommends", package]);
            let listed = output(&mut command)?;
            // 'URI' NAME_VERSION_ARCHITECTURE.deb SIZE HASH
            let names = listed.lines().filter_map(|line| line.split(' ').nth(1)?.split('_').next());
            let mut command = Command::new("apt-get");
            command.current_dir(&packages).args(["download", "-qq"]).args(names);
            output(&mut command).with_context(|| format!("Debian's {package}"))?;
            for file in fs::read_dir(packages)? {
                output(Command::new("dpkg").arg("-x").arg(file?.path()).arg(beside))?;
            }
            Ok(())
        })
    }
}

/// A program with the libraries that were unpacked beside it.
fn with_libraries(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    let libraries = folder.join("usr/lib").join(format!("{}-linux-gnu", env::consts::ARCH));
    command.env("LD_LIBRARY_PATH", libraries);
    command
}

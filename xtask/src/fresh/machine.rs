//! Parts of the fresh machine: Debian's packages, this machine's toolchains and settings, a clone.
//!
//! Must not be in here: mounts, or how apt writes its sources.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::settings::{self, Settings, Source};
use super::{CLONE, root};

use crate::child::output;

const SUITE: &str = "bookworm";
/// Packages that the README asks for, and those that fetching needs.
const PACKAGES: &str = "gcc,libc6-dev,make,git,ca-certificates";
const PROGRAMS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const HOME: &str = "/root";

/// Toolchains, package sources and settings that are taken from this machine.
pub(super) struct Machine {
    toolchains: Vec<Toolchain>,
    sources: Vec<Source>,
    mirror: String,
}

/// How a toolchain comes there.
#[derive(Debug, PartialEq, Eq)]
enum Toolchain {
    /// A folder of its own, with its programs in `bin`.
    Folder(PathBuf),
    /// One program, of a package of this machine.
    File(PathBuf),
}

impl Machine {
    /// Looks at this machine.
    pub(super) fn look(repository: &Path) -> Result<Machine> {
        let ask = |program: &str, arguments: &[&str]| ask(repository, program, arguments);
        let mut toolchains = Vec::new();
        for prefix in [ask("rustc", &["--print", "sysroot"])?, ask("go", &["env", "GOROOT"])?] {
            ensure!(
                !is_system(&prefix),
                "{prefix}: a toolchain has to be in a folder of its own to be shown"
            );
            toolchains.push(Toolchain::Folder(prefix.into()));
        }
        // apt installs those that are not taken over.
        let node = ask("node", &["--print", "fs.realpathSync(process.execPath)"]);
        toolchains.extend(node.ok().and_then(|program| of_program(Path::new(&program))));
        let python = ask("python3", &["-c", "import sys; print(sys.base_prefix)"]);
        toolchains
            .extend(python.ok().filter(|prefix| !is_system(prefix)).map(|it| Toolchain::Folder(it.into())));
        let sources = sources()?;
        let main = sources.iter().find(|source| source.has(SUITE));
        let mirror = main.with_context(|| format!("apt has no source of {SUITE}"))?.uri.clone();
        Ok(Machine { toolchains, sources, mirror })
    }

    /// Commands that fill the folder, from outside.
    pub(super) fn preparations(&self, folder: &Path, repository: &Path) -> [Command; 2] {
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", &format!("--include={PACKAGES}"), SUITE]);
        debootstrap.arg(folder).arg(&self.mirror);
        let mut git = Command::new("git");
        // The user of the repository may be another one than root.
        git.args(["-c", "safe.directory=*", "clone", "--no-local"]).arg(repository);
        git.arg(root::at(folder, Path::new(CLONE)));
        [debootstrap, git]
    }

    /// Takes over settings and toolchains, and a cache if there is one, and makes the folder the root.
    /// Returns the environment there.
    pub(super) fn move_in(&self, folder: &Path, cache: Option<&Path>) -> Result<BTreeMap<String, String>> {
        let settings = Settings::read()?;
        let variables = env::vars().filter(|(name, _)| settings.wants(name));
        let mut environment: BTreeMap<String, String> = variables.collect();
        self.copy_settings(folder, &settings.files, &environment)?;
        root::mount_kernel(folder)?;
        let mut path = Vec::new();
        for toolchain in &self.toolchains {
            match toolchain {
                Toolchain::Folder(prefix) => {
                    root::show(folder, prefix)?;
                    path.push(prefix.join("bin").display().to_string());
                }
                Toolchain::File(program) => {
                    let name = program.file_name().context("a program has a name")?;
                    root::copy(folder, program, &Path::new("/usr/local/bin").join(name))?;
                }
            }
        }
        if let Some(cache) = cache {
            root::share(folder, cache, &Path::new(HOME).join(".cache"))?;
        }
        root::enter(folder)?;
        path.push(PROGRAMS.to_owned());
        let own = [
            ("PATH", path.join(":")),
            ("HOME", HOME.into()),
            ("LANG", "C.UTF-8".into()),
            ("CI", "true".into()),
        ];
        environment.extend(own.map(|(name, value)| (name.to_owned(), value)));
        Ok(environment)
    }

    fn copy_settings(
        &self,
        folder: &Path,
        files: &[String],
        environment: &BTreeMap<String, String>,
    ) -> Result<()> {
        let home = env::var("HOME").unwrap_or_else(|_| HOME.to_owned());
        for file in files {
            let (from, to) = (file.replacen('~', &home, 1), file.replacen('~', HOME, 1));
            root::copy(folder, Path::new(&from), Path::new(&to))?;
        }
        let named = environment.values().chain(self.sources.iter().filter_map(|source| source.keys.as_ref()));
        for file in named.map(Path::new).filter(|value| value.is_absolute()) {
            root::copy(folder, file, file)?;
        }
        for entry in fs::read_dir("/etc/apt/apt.conf.d").into_iter().flatten() {
            let file = entry?.path();
            if settings::is_about_fetching(&fs::read_to_string(&file)?) {
                root::copy(folder, &file, &file)?;
            }
        }
        let apt = root::at(folder, Path::new("/etc/apt"));
        fs::write(apt.join("sources.list"), "")?;
        for (number, source) in self.sources.iter().enumerate() {
            let kind = if source.text.starts_with("deb ") { "list" } else { "sources" };
            fs::write(apt.join(format!("sources.list.d/{number}.{kind}")), &source.text)?;
        }
        Ok(())
    }
}

/// This machine's sources of the suite.
fn sources() -> Result<Vec<Source>> {
    let apt = Path::new("/etc/apt");
    let listed = fs::read_dir(apt.join("sources.list.d"))?;
    let files = listed.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let mut all = Vec::new();
    for file in files.into_iter().chain([apt.join("sources.list")]).filter(|file| file.is_file()) {
        all.extend(settings::sources(&file, &fs::read_to_string(&file)?));
    }
    all.retain(|source| source.is_of(SUITE));
    Ok(all)
}

fn ask(folder: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    Ok(output(Command::new(program).args(arguments).current_dir(folder))?.trim().to_owned())
}

fn is_system(prefix: &str) -> bool {
    ["/", "/usr"].contains(&prefix)
}

/// The toolchain that a program is part of.
fn of_program(program: &Path) -> Option<Toolchain> {
    let prefix = program.parent()?.parent()?;
    Some(if is_system(prefix.to_str()?) {
        Toolchain::File(program.to_owned())
    } else {
        Toolchain::Folder(prefix.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_a_package_comes_alone_and_others_with_their_folder() {
        let program = Path::new("/usr/bin/node");
        assert_eq!(of_program(program), Some(Toolchain::File(program.into())));
        assert_eq!(of_program(Path::new("/opt/node/bin/node")), Some(Toolchain::Folder("/opt/node".into())));
    }
}

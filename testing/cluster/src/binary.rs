//! The program that is all components, in `kubernetes/`: built once for each version of its sources and kept
//! in the user's cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use aws_lc_rs::digest;

use crate::cache::cache;

/// The version that `kubectl version` prints; `kubernetes/go.mod` has the same.
const VERSION: &str = "v1.37.0";
/// A build of other sources that nobody has used for so long goes when a new one is made: each has 190 MB.
const UNUSED_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The program, which is built where it is not there: ten minutes from nothing, some seconds when only our
/// sources have changed.
pub fn binary() -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes");
    let cache = cache()?.join("kubernetes");
    let folder = cache.join(format!("{VERSION}-{}", hash(&sources)?));
    fs::create_dir_all(&folder)?;
    let program = folder.join("kubernetes");
    // A second process waits for the first one's build.
    let lock = File::create(folder.join("lock"))?;
    lock.lock()?;
    if program.is_file() {
        // Says that it is in use.
        lock.set_modified(SystemTime::now())?;
        return Ok(program);
    }
    remove_unused(&cache)?;
    build(&sources, &program)?;
    Ok(program)
}

/// A folder with a `kubectl`, to be put into `PATH`.
pub fn kubectl(folder: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;

    let programs = folder.join("bin");
    fs::create_dir_all(&programs)?;
    let script = programs.join("kubectl");
    fs::write(&script, format!("#!/bin/sh\nexec '{}' kubectl \"$@\"\n", binary()?.display()))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(programs)
}

fn build(sources: &Path, program: &Path) -> Result<()> {
    eprintln!("building Kubernetes {VERSION}, which takes ten minutes the first time");
    let flags = format!(
        "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion={VERSION} \
         -X k8s.io/client-go/pkg/version.gitVersion={VERSION}"
    );
    let unfinished = program.with_extension("unfinished");
    let mut command = Command::new("go");
    command.current_dir(sources).args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false"]);
    command.arg(flags).arg("-o").arg(&unfinished).arg(".");
    // The toolchain that is there, or none.
    command.env("GOTOOLCHAIN", "local");
    let output =
        command.output().context("cannot start go: install Go 1.26 or later, from https://go.dev")?;
    if !output.status.success() {
        bail!("{command:?} ended with {}:\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(fs::rename(unfinished, program)?)
}

fn remove_unused(cache: &Path) -> Result<()> {
    for entry in fs::read_dir(cache)? {
        let folder = entry?.path();
        let used = fs::metadata(folder.join("lock")).and_then(|lock| lock.modified());
        if used.is_ok_and(|used| used.elapsed().is_ok_and(|age| age > UNUSED_MAX)) {
            fs::remove_dir_all(folder)?;
        }
    }
    Ok(())
}

/// A hash that tells builds apart: of every source file, with its name.
fn hash(sources: &Path) -> Result<String> {
    let mut context = digest::Context::new(&digest::SHA256);
    for file in files(sources)? {
        let text = fs::read(sources.join(&file)).with_context(|| file.display().to_string())?;
        context.update(format!("{}\0{}\0", file.display(), text.len()).as_bytes());
        context.update(&text);
    }
    let digest = context.finish();
    let start = digest.as_ref().first_chunk().context("a digest")?;
    Ok(format!("{:016x}", u64::from_be_bytes(*start)))
}

fn files(sources: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![sources.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path.strip_prefix(sources)?.to_path_buf());
            }
        }
    }
    ensure!(!files.is_empty(), "no sources in {}", sources.display());
    files.sort();
    Ok(files)
}

//! Finds the CPU cgroups of a process and of all Pods, in version 1 and 2.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Mount points of hierarchies with a CPU controller: those of version 1, with the names that kernels or
/// distributions use, then that of version 2.
const ROOTS: &[&str] =
    &["/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup"];

/// The levels are kubepods.slice, a class of service (`QoS`), a Pod, a container, and one more that some
/// runtimes add.
const POD_DEPTH_MAX: usize = 5;

/// The cgroups that can limit the CPU time of a process, and their parents, as folders without leading slash.
pub(super) fn of(pid: u32) -> BTreeSet<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mut folders = BTreeSet::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        for root in roots(controllers) {
            folders.extend(with_parents(&root, path, &["cpu.stat", "cpuacct.usage"]));
        }
    }
    folders
}

/// The cgroups that can limit the memory of a process, and their parents, likewise.
pub(super) fn memory_of(pid: u32) -> BTreeSet<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mut folders = BTreeSet::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let root = match controllers {
            "" => "/sys/fs/cgroup",
            _ if controllers.split(',').any(|one| one == "memory") => "/sys/fs/cgroup/memory",
            _ => continue,
        };
        folders.extend(with_parents(Path::new(root), path, &["memory.max", "memory.limit_in_bytes"]));
    }
    folders
}

/// The cgroups of all Pods that are visible in this mount.
pub(super) fn of_pods() -> BTreeSet<String> {
    let mut folders = BTreeSet::new();
    for root in ROOTS.iter().map(Path::new).filter(|root| root.join("cpu.stat").exists() || is_v2(root)) {
        for entry in subfolders(root) {
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with("kubepods") || name.starts_with("kubelet") {
                walk(&entry, POD_DEPTH_MAX, &mut folders);
            }
        }
    }
    folders
}

/// The mount points for the controllers in a line of `/proc/PID/cgroup`. The line of version 2 has no
/// controllers.
fn roots(controllers: &str) -> Vec<PathBuf> {
    if controllers.is_empty() {
        let root = PathBuf::from("/sys/fs/cgroup");
        return if is_v2(&root) { vec![root] } else { Vec::new() };
    }
    let is_cpu = controllers.split(',').any(|one| one == "cpu" || one == "cpuacct");
    let candidates = [controllers.to_owned(), controllers.split(',').rev().collect::<Vec<_>>().join(",")];
    let roots = candidates.iter().map(|name| Path::new("/sys/fs/cgroup").join(name));
    roots.filter(|root| is_cpu && root.is_dir()).take(1).collect()
}

fn is_v2(root: &Path) -> bool {
    root.join("cgroup.controllers").exists()
}

/// A group and its parents, as far as they exist and have one of these files. In a container the path may be
/// that of the host, while the mount shows only the container's own group.
fn with_parents(root: &Path, path: &str, files: &[&str]) -> Vec<String> {
    let folder = root.join(path.trim_start_matches('/').trim_start_matches("../"));
    let folder = if folder.is_dir() { folder } else { root.to_path_buf() };
    let groups = folder.ancestors().take_while(|group| group.starts_with(root));
    let telling = groups.filter(|group| files.iter().any(|file| group.join(file).exists()));
    telling.map(relative).collect()
}

fn walk(folder: &Path, depth: usize, folders: &mut BTreeSet<String>) {
    folders.insert(relative(folder));
    if depth > 0 {
        for entry in subfolders(folder) {
            walk(&entry, depth - 1, folders);
        }
    }
}

fn subfolders(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(|path| path.is_dir())
}

fn relative(folder: &Path) -> String {
    folder.strip_prefix("/").unwrap_or(folder).to_string_lossy().into_owned()
}

//! Where the CPU's cgroups are: of a process, and of all Pods, in version 1 and 2.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where hierarchies with a CPU controller are mounted: version 1's, by the kernel's or the distributions' names, then version 2's.
const ROOTS: &[&str] =
    &["/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup"];

/// kubepods.slice, a class of service, a Pod, a container, and one more that some runtimes add.
const POD_DEPTH_MAX: usize = 5;

/// The cgroups of a process that has to do with its CPU, and those above, as folders without leading slash.
pub(super) fn of(pid: u32) -> BTreeSet<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mut folders = BTreeSet::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        for root in roots(controllers) {
            folders.extend(with_parents(&root, path));
        }
    }
    folders
}

/// The cgroups of all Pods that this mount shows.
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

/// The mounts of a line's controllers. Of version 2 the line has none.
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

/// A group and those above it that say something. In a container the path may be the host's, and what is mounted already ours.
fn with_parents(root: &Path, path: &str) -> Vec<String> {
    let folder = root.join(path.trim_start_matches('/').trim_start_matches("../"));
    let folder = if folder.is_dir() { folder } else { root.to_path_buf() };
    let groups = folder.ancestors().take_while(|group| group.starts_with(root));
    let telling =
        groups.filter(|group| group.join("cpu.stat").exists() || group.join("cpuacct.usage").exists());
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

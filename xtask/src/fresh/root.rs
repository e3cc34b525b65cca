//! The way into the folder of a machine: mounts in it, and it in place of `/`.
//!
//! Must not be in here: what is mounted.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::mount::{
    MountFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_remount, unmount,
};

/// The place in the machine for a path of this one.
pub(super) fn at(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Shows a folder of this machine in it, at the same path, where nothing can be written.
pub(super) fn show(root: &Path, folder: &Path) -> Result<()> {
    let there = at(root, folder);
    let show = || -> Result<()> {
        fs::create_dir_all(&there)?;
        mount_bind(folder, &there)?;
        Ok(mount_remount(&there, MountFlags::BIND | MountFlags::RDONLY, "")?)
    };
    show().with_context(|| format!("cannot show {}", folder.display()))
}

/// Shows a folder of this machine in it, where both may write.
pub(super) fn share(root: &Path, folder: &Path, to: &Path) -> Result<()> {
    let there = at(root, to);
    fs::create_dir_all(&there)?;
    mount_bind(folder, &there).with_context(|| format!("cannot share {}", folder.display()))
}

/// Copies a file of this machine to the same path. One that is not there is none there.
pub(super) fn copy(root: &Path, file: &Path, to: &Path) -> Result<()> {
    if !file.is_file() {
        return Ok(());
    }
    let there = at(root, to);
    let copy = || -> Result<()> {
        fs::create_dir_all(there.parent().context("a file is in a folder")?)?;
        // The existing file may be a link that leads out of the machine.
        let _ = fs::remove_file(&there);
        fs::copy(file, &there)?;
        Ok(())
    };
    copy().with_context(|| format!("cannot copy {}", file.display()))
}

/// Mounts what belongs to the kernel.
pub(super) fn mount_kernel(root: &Path) -> Result<()> {
    // A root has to be a mount of its own.
    mount_bind(root, root).context("cannot mount the machine's folder")?;
    let none = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", at(root, Path::new("/proc")), "proc", none, None).context("cannot mount /proc")?;
    for folder in ["/dev", "/sys"] {
        let there = at(root, Path::new(folder));
        mount_bind_recursive(folder, there).with_context(|| format!("cannot mount {folder}"))?;
    }
    Ok(())
}

/// The folder is `/` from now on, and nothing else can be reached. (The root of a namespace can make
/// namespaces of users, which chroot(2) would forbid.)
pub(super) fn enter(root: &Path) -> Result<()> {
    // It may be below the folder that is mounted over it.
    let root = File::open(root)?;
    rustix::process::fchdir(&root)?;
    rustix::process::pivot_root(".", ".").context("cannot make the folder the root")?;
    unmount(".", UnmountFlags::DETACH).context("cannot leave the old root")?;
    Ok(env::set_current_dir("/")?)
}

/// The first mount below a folder, of `/proc/self/mountinfo`.
pub(super) fn mount_below(mountinfo: &str, folder: &Path) -> Option<PathBuf> {
    let places = mountinfo.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    places.into_iter().find(|place| place.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_below_a_folder_is_seen() {
        let table =
            "36 35 98:0 / / rw,noatime - ext3 /dev/root rw\n37 36 0:5 / /var/tmp/a/proc rw - proc proc rw\n";
        assert_eq!(mount_below(table, Path::new("/var/tmp/a")), Some("/var/tmp/a/proc".into()));
        assert_eq!(mount_below(table, Path::new("/var/tmp/ab")), None);
    }

    #[test]
    fn a_path_of_this_machine_has_a_place_in_the_other() {
        assert_eq!(at(Path::new("/m"), Path::new("/etc/hosts")), Path::new("/m/etc/hosts"));
    }

    #[test]
    fn a_file_is_copied_over_a_link_and_one_that_is_missing_is_not() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = outside.path().join("resolv.conf");
        fs::write(&file, "theirs").unwrap();
        fs::create_dir(folder.path().join("etc")).unwrap();
        std::os::unix::fs::symlink(&file, folder.path().join("etc/resolv.conf")).unwrap();
        let ours = outside.path().join("ours");
        fs::write(&ours, "ours").unwrap();
        copy(folder.path(), &ours, Path::new("/etc/resolv.conf")).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("etc/resolv.conf")).unwrap(), "ours");
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
        copy(folder.path(), Path::new("/nonexistent"), Path::new("/etc/x")).unwrap();
        assert!(!folder.path().join("etc/x").exists());
    }
}

//! `cargo xtask image-test`: the image, run as the chart runs it: not root, nothing to write to, no
//! capability but one, containerd's filter of system calls. It has to serve, to take up a new certificate,
//! and to end without losing a request.
//!
//! All of it happens in namespaces of its own, and is gone afterwards. Must not be in here: Kubernetes;
//! `testing/cluster` has that.

mod preparation;
mod stage;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use lab::inside;
use rustix::mount::{MountFlags, mount};

use super::files::USER;
use preparation::Prepared;
use stage::Stage;

/// Options of `cargo xtask image-test`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The image; without it the one that `cargo xtask image` has put into `dist`.
    #[arg(long, value_name = "TAR", conflicts_with = "binary")]
    image: Option<PathBuf>,
    /// A binary to make an image of. If it is linked dynamically, which an image in use must not be, it gets
    /// this machine's libraries.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// The prepared files; set inside the namespaces.
    #[arg(long, hide = true)]
    prepared: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Some(file) = &arguments.prepared else { return enter(arguments) };
    let prepared: Prepared = serde_json::from_slice(&fs::read(file)?).context("what was prepared")?;
    must_have_users()?;
    inside::prepare()?;
    inside::cover_run()?;
    // crun wants to see control groups of one kind, although it is to use none: some machines have both.
    mount("cgroup2", "/sys/fs/cgroup", "cgroup2", MountFlags::empty(), None)
        .context("cannot mount /sys/fs/cgroup")?;
    let folder = PathBuf::from("/run/image");
    fs::create_dir(&folder)?;
    let stage = Stage::new(&prepared, folder)?;
    stage.in_own_network().context("in a network of its own")?;
    stage.in_node_network().context("in the node's network")?;
    println!("ok");
    Ok(ExitCode::SUCCESS)
}

/// Root of a container may lack what it takes, and has no other users then.
fn must_have_users() -> Result<()> {
    let map = fs::read_to_string("/proc/self/uid_map")?;
    let count: u64 = map.split_whitespace().nth(2).context("/proc/self/uid_map is empty")?.parse()?;
    ensure!(
        count > USER.into(),
        "there is no user {USER} here: root of this machine is needed, not that of a container"
    );
    Ok(())
}

/// Makes what needs a network or a compiler, and goes on in new namespaces.
fn enter(arguments: &Arguments) -> Result<ExitCode> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "only root can run a container whose user is another one; making images (`make image`) needs no root"
    );
    let prepared = Prepared::make(arguments.image.as_deref(), arguments.binary.as_deref())?;
    let file = prepared.write()?;
    inside::enter::<OsString>(["image-test".into(), "--prepared".into(), file.into()])
}

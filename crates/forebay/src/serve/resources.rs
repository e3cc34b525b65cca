//! Resources that `serve` opens before there is a configuration: files, folders, the admin server's listener,
//! the recorder.
//!
//! Must not be in here: their use.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use files::{Root, Store};
use observe::Registry;
use proxy::HandedSockets;

use crate::admin;
use crate::cli;
use crate::doctor::serving::Findings;
use crate::log_output::AuditLog;
use crate::recorder::Recording;
use crate::service_manager;
use crate::trouble;

/// The audit log of firewalls, which can be written.
pub(super) fn audit_log(options: &cli::Serve) -> anyhow::Result<AuditLog> {
    let audit_log = options.waf_audit_log.clone().unwrap_or_default();
    audit_log.check()?;
    Ok(audit_log)
}

/// Starts the flight recorder.
pub(super) fn recording(
    options: &cli::Serve,
    registry: &Arc<Registry>,
    findings: &Arc<Findings>,
) -> anyhow::Result<Arc<Recording>> {
    let recording = Recording::start(&options.recording, Arc::clone(registry), Arc::clone(findings))?;
    Ok(Arc::new(recording))
}

pub(super) fn admin_listener(address: SocketAddr, handed: &HandedSockets) -> anyhow::Result<TcpListener> {
    admin::bind(address, handed)
        .map_err(|error| trouble::cannot_listen(&address.to_string(), &error, "--healthz-port"))
}

/// Another machine's address would look like one that has run out of ports, request by request.
pub(super) fn check_sources(options: &cli::Serve) -> anyhow::Result<()> {
    for &source in &options.upstream_source_address {
        let cannot = || format!("--upstream-source-address {source} is not an address of this machine");
        TcpListener::bind((source, 0)).with_context(cannot)?;
    }
    Ok(())
}

/// Descriptors that files and the cache's folder keep open, at most.
pub(super) fn kept_open(options: &cli::Serve) -> u64 {
    let files = options.reading.files_root.as_ref().map_or(0, |_| files::limits::OPEN_FILES_MAX as u64);
    let segments = options.reading.cache_disk.map_or(0, |bytes| cache_disk::Size::of(bytes).open_files_max());
    files + segments
}

/// Opens the folder of files.
pub(super) fn files(options: &cli::Serve) -> anyhow::Result<Option<Arc<Store>>> {
    let Some(path) = &options.reading.files_root else { return Ok(None) };
    let root = Root::open(path).context("--files-root")?;
    let memory = usize::try_from(options.files_memory).unwrap_or(usize::MAX);
    Ok(Some(Arc::new(Store::new(root, memory))))
}

/// Opens the cache's folder, if there is to be one.
pub(super) fn cache_disk(options: &cli::Serve) -> anyhow::Result<Option<Arc<cache_disk::Disk>>> {
    let (Some(folder), Some(bytes)) = (&options.reading.cache_folder, options.reading.cache_disk) else {
        return Ok(None);
    };
    let size = cache_disk::Size::of(bytes);
    let disk = if service_manager::is_successor() {
        cache_disk::Disk::open_after_predecessor(folder, size)
    } else {
        cache_disk::Disk::open(folder, size)
    };
    let disk = disk.context("--cache-folder")?;
    Ok(Some(Arc::new(disk)))
}

/// Opens the folder for bodies. That it takes files shows now, and not when the first long body comes.
pub(super) fn body_folder(path: &Path) -> anyhow::Result<OwnedFd> {
    let cannot = || format!("--body-buffer-dir {}: files cannot be made there", path.display());
    let trial = path.join(format!("forebay-trial-{}", std::process::id()));
    fs::File::create(&trial).and_then(|_| fs::remove_file(&trial)).with_context(cannot)?;
    Ok(fs::File::open(path).with_context(cannot)?.into())
}

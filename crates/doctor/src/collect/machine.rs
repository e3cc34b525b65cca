//! Reads the machine on which this process runs: files of `/proc` and `/sys`.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::path::Path;
use std::{fs, io};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};

use super::namespace::Namespace;
use super::processes::{self, Owners};
use super::sock_diag::{self, Question};
use super::{CollectError, cgroups, fdb, files};
use crate::read::cgroups::quota_of_process;
use crate::read::sockets::Groups;
use crate::read::udp;
use crate::sample::{Absence, HOST_CLOSED, NamespaceOwner, PERMISSION_DENIED, Sample};
use crate::sockets::{SocketGroup, State};

/// Most threads of one process that are read.
const THREADS_MAX: usize = 64;

/// Most processes that are read if none was named.
const PROCESSES_MAX: usize = 64;

/// The machine as the calling thread sees it.
pub(super) struct Machine {
    pid: Option<u32>,
    /// The examined network namespace, which the thread has entered.
    looked_at: io::Result<Namespace>,
    /// The network namespace to compare with.
    host: Result<Namespace, String>,
    /// The folder that shows the network devices of this namespace.
    devices: Result<String, String>,
}

impl Machine {
    /// Moves the calling thread into the network namespace of the process; none for its own.
    pub(super) fn enter(pid: Option<u32>) -> Result<Machine, CollectError> {
        let own = Namespace::own();
        let host = Namespace::host();
        let mut devices = Ok("/sys/class/net".to_owned());
        let mut looked_at = Namespace::own();
        let mut is_other = false;
        if let Some(pid) = pid {
            if !Path::new(&format!("/proc/{pid}")).is_dir() {
                return Err(CollectError::NoProcess(pid));
            }
            let cannot = |source| CollectError::Namespace { pid, source };
            let its = Namespace::of(pid).map_err(cannot)?;
            is_other = !own.as_ref().is_ok_and(|own| own.is(&its));
            if is_other {
                its.enter().map_err(cannot)?;
                // A mounted sysfs shows the namespace in which it was mounted, so that the process's own
                // mount is used.
                let root = format!("/proc/{pid}/root");
                devices = Ok(root + "/sys/class/net");
            }
            looked_at = Ok(its);
        }
        // If the namespace of the first process cannot be opened, the one in which doctor was started is
        // compared with.
        let host = match (host, own) {
            (Err(_), Ok(own)) if is_other => Ok(own),
            (host, _) => host,
        };
        if is_other && !devices.as_ref().is_ok_and(|folder| shows_namespace(folder)) {
            devices = Err("/sys shows another network namespace".into());
        }
        Ok(Machine { pid, looked_at, host, devices })
    }

    pub(super) fn read(&self, pods: bool, sample: &mut Sample) {
        for path in files::PATHS {
            put(sample, path, &at(path));
        }
        for parameter in files::PARAMETERS {
            let path = format!("proc/sys/{parameter}");
            put(sample, &path, &format!("/{path}"));
        }
        read_udp_sockets(sample);
        let listening = read_sockets(sample);
        sample.taken.pids = match self.pid {
            Some(pid) => processes::tree(pid),
            None => listening.into_iter().take(PROCESSES_MAX).collect(),
        };
        let mut groups = if self.pid.is_none() { cgroups::of(std::process::id()) } else { BTreeSet::new() };
        for pid in sample.taken.pids.clone() {
            read_process(pid, sample);
            groups.extend(cgroups::of(pid));
        }
        if pods {
            groups.extend(cgroups::of_pods());
        }
        for group in groups {
            read_all(sample, &group, files::OF_CGROUP);
        }
        self.read_devices(sample);
        let ends = fdb::tunnel_ends().map_err(|error| error.to_string());
        let text = ends.and_then(|ends| serde_json::to_string(&ends).map_err(|error| error.to_string()));
        sample.put("forebay/tunnel-ends.json", text.map_err(Absence::Unreadable));
        self.read_host(sample);
    }

    fn read_devices(&self, sample: &mut Sample) {
        let devices = match &self.devices {
            Ok(folder) => folder,
            Err(why) => return sample.put("sys/class/net", Err(Absence::Unreadable(why.clone()))),
        };
        for device in names(devices) {
            for file in files::OF_DEVICE {
                put(sample, &format!("sys/class/net/{device}/{file}"), &format!("{devices}/{device}/{file}"));
            }
        }
    }

    /// Reads the files of the host's namespace, if that is another one, or records why they cannot be read.
    fn read_host(&self, sample: &mut Sample) {
        let parameters = files::PARAMETERS.iter().map(|parameter| format!("proc/sys/{parameter}"));
        let paths: Vec<String> =
            parameters.chain(files::OF_HOST.iter().map(|&path| path.to_owned())).collect();
        let contents = match (&self.host, &self.looked_at) {
            (Ok(host), Ok(looked_at)) if host.is(looked_at) => {
                sample.taken.namespace = NamespaceOwner::Host;
                return;
            }
            (Ok(host), Ok(_)) => {
                sample.taken.namespace = NamespaceOwner::Other;
                read_inside(host, &paths)
            }
            (Err(why), _) => Err(why.clone()),
            (_, Err(error)) => Err(error.to_string()),
        };
        match contents {
            Ok(contents) => {
                for (path, content) in paths.iter().zip(contents) {
                    sample.put(format!("host/{path}"), content);
                }
            }
            Err(why) => {
                for path in paths {
                    sample.put(format!("host/{path}"), Err(Absence::Unreadable(why.clone())));
                }
            }
        }
    }
}

/// Reads files in another namespace, on a thread that enters it and then ends.
fn read_inside(namespace: &Namespace, paths: &[String]) -> Result<Vec<Result<String, Absence>>, String> {
    let work = || {
        namespace.enter().map_err(|error| format!("{HOST_CLOSED}{error}"))?;
        Ok(paths.iter().map(|path| read(&at(path))).collect())
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

/// Reads the sockets. Returns the processes that listen.
fn read_sockets(sample: &mut Sample) -> BTreeSet<u32> {
    let owners = Owners::of(&processes::all());
    let mut listening = BTreeSet::new();
    match groups(&owners, &mut listening) {
        Ok(groups) => {
            let text = serde_json::to_string(&groups).map_err(|error| error.to_string());
            sample.put("forebay/sockets.json", text.map_err(Absence::Unreadable));
        }
        Err(error) => {
            sample.put("forebay/sockets.json", Err(Absence::Unreadable(format!("sock_diag: {error}"))));
            for path in ["proc/net/tcp", "proc/net/tcp6"] {
                put(sample, path, &at(path));
            }
        }
    }
    listening
}

/// Reads the UDP sockets that have no peer: those of clients would have their addresses.
fn read_udp_sockets(sample: &mut Sample) {
    let [v4, v6] = ["proc/net/udp", "proc/net/udp6"].map(|path| read(&at(path)));
    // A kernel without IPv6 has only the first.
    let text = v4.and_then(|v4| {
        let sockets = udp::parse(&[v4, v6.unwrap_or_default()].concat());
        serde_json::to_string(&sockets).map_err(|error| Absence::Unreadable(error.to_string()))
    });
    sample.put("forebay/udp-sockets.json", text);
}

fn groups(owners: &Owners, listening: &mut BTreeSet<u32>) -> io::Result<Vec<SocketGroup>> {
    let mut groups = Groups::new(sock_diag::listening_ports()?);
    sock_diag::each(Question { states: State::ALL, segments: true }, |found| {
        let owner = owners.of_socket(found.inode);
        if found.socket.state == State::Listen {
            listening.extend(owner.map(|owner| owner.pid));
        }
        groups.add(&found.socket, owner);
    })?;
    Ok(groups.finish())
}

/// Whether a folder of devices shows the thread's namespace: it has the same devices with the same numbers.
fn shows_namespace(folder: &str) -> bool {
    let Ok(socket) = socket(AddressFamily::INET, SocketType::DGRAM, None) else { return false };
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let devices = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
    let devices: BTreeSet<_> = devices.collect();
    let is_same = |device: &String| {
        let shown = fs::read_to_string(format!("{folder}/{device}/ifindex")).unwrap_or_default();
        name_to_index(&socket, device).is_ok_and(|number| number.to_string() == shown.trim())
    };
    !devices.is_empty()
        && devices.iter().all(is_same)
        && names(folder).all(|device| devices.contains(&device))
}

/// The path at which a file is read: `/proc/net` is that of the main thread, so that this thread's own folder
/// is used.
fn at(path: &str) -> String {
    match path.strip_prefix("proc/net/") {
        Some(rest) => format!("/proc/thread-self/net/{rest}"),
        None => format!("/{path}"),
    }
}

/// The CPUs that the quotas of a process's cgroups allow; `None` if it has no quota.
pub fn cpu_quota(pid: u32) -> Option<f64> {
    let mut sample = Sample::default();
    read_all(&mut sample, &format!("proc/{pid}"), files::OF_PROCESS);
    for group in cgroups::of(pid) {
        read_all(&mut sample, &group, files::OF_CGROUP);
    }
    quota_of_process(&sample, pid).ok()?.map(|(cpus, _)| cpus)
}

fn read_process(pid: u32, sample: &mut Sample) {
    read_all(sample, &format!("proc/{pid}"), files::OF_PROCESS);
    for thread in names(&format!("/proc/{pid}/task")).take(THREADS_MAX) {
        read_all(sample, &format!("proc/{pid}/task/{thread}"), files::OF_THREAD);
    }
}

pub(super) fn read_all(sample: &mut Sample, folder: &str, names: &[&str]) {
    for name in names {
        put(sample, &format!("{folder}/{name}"), &format!("/{folder}/{name}"));
    }
}

pub(super) fn put(sample: &mut Sample, path: &str, file: &str) {
    sample.put(path, read(file));
}

fn read(file: &str) -> Result<String, Absence> {
    let bytes = fs::read(file).map_err(|error| absence(&error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn absence(error: &io::Error) -> Absence {
    match error.kind() {
        io::ErrorKind::NotFound => Absence::Missing,
        io::ErrorKind::PermissionDenied => Absence::Unreadable(PERMISSION_DENIED.into()),
        _ => Absence::Unreadable(error.to_string()),
    }
}

/// The names of the entries of a folder; empty if it cannot be read.
fn names(folder: &str) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

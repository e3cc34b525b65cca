//! Reads the machine on which this process runs: files of `/proc` and `/sys`.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::path::Path;
use std::{fs, io};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};

use super::contents::{at, names, put, read, read_all};
use super::holders::Search;
use super::kept::Kept;
use super::namespace::Namespace;
use super::{CollectError, cgroups, fdb, files, processes, sockets};
use crate::read::cgroups::quota_of_process;
use crate::read::udp;
use crate::sample::{Absence, HOST_CLOSED, NamespaceOwner, Sample};

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
    /// Files that are read only now and then; none where each sample is read as a whole.
    kept: Option<Kept>,
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
        Ok(Machine { pid, looked_at, host, devices, kept: None })
    }

    /// Reads what hardly changes only now and then from now on.
    pub(super) fn spare(&mut self) {
        self.kept = Some(Kept::default());
    }

    pub(super) fn read(&mut self, pods: bool, sample: &mut Sample) {
        let mut kept = self.kept.take();
        let is_whole = kept.as_mut().is_none_or(Kept::begin);
        self.read_with(kept.as_mut(), is_whole, pods, sample);
        if let Some(kept) = &mut kept {
            kept.note(sample);
        }
        self.kept = kept;
    }

    fn read_with(&self, mut kept: Option<&mut Kept>, is_whole: bool, pods: bool, sample: &mut Sample) {
        let tree = match (kept.as_deref(), self.pid) {
            (Some(kept), Some(_)) if !is_whole => Some(kept.tree.clone()),
            (_, pid) => pid.map(processes::tree),
        };
        let pod_groups = match kept.as_deref() {
            Some(kept) if !is_whole => kept.pods.clone(),
            _ if pods => cgroups::of_pods(),
            _ => BTreeSet::new(),
        };
        if let Some(kept) = kept.as_deref_mut().filter(|_| is_whole) {
            kept.tree = tree.clone().unwrap_or_default();
            kept.pods.clone_from(&pod_groups);
        }
        let listening = match kept.as_deref_mut() {
            Some(kept) => {
                let search = Search { tree: tree.as_deref().unwrap_or_default(), everywhere: is_whole };
                kept.sockets.read(search, sample)
            }
            None => sockets::read(sample),
        };
        let kept = kept.as_deref();
        for path in files::PATHS {
            put_or_keep(kept, sample, path, &at(path));
        }
        for parameter in files::PARAMETERS {
            let path = format!("proc/sys/{parameter}");
            put_or_keep(kept, sample, &path, &format!("/{path}"));
        }
        read_udp_sockets(sample);
        sample.taken.pids = tree.unwrap_or_else(|| listening.into_iter().take(PROCESSES_MAX).collect());
        let mut groups = if self.pid.is_none() { cgroups::of(std::process::id()) } else { BTreeSet::new() };
        for pid in sample.taken.pids.clone() {
            read_process(kept, pid, sample);
            groups.extend(cgroups::of(pid));
        }
        groups.extend(pod_groups);
        for group in groups {
            read_each(kept, sample, &group, files::OF_CGROUP);
        }
        self.read_devices(kept, sample);
        let ends = fdb::tunnel_ends().map_err(|error| error.to_string());
        let text = ends.and_then(|ends| serde_json::to_string(&ends).map_err(|error| error.to_string()));
        sample.put("forebay/tunnel-ends.json", text.map_err(Absence::Unreadable));
        self.read_host(kept, sample);
    }

    fn read_devices(&self, kept: Option<&Kept>, sample: &mut Sample) {
        let devices = match &self.devices {
            Ok(folder) => folder,
            Err(why) => return sample.put("sys/class/net", Err(Absence::Unreadable(why.clone()))),
        };
        for device in names(devices) {
            for file in files::OF_DEVICE {
                let path = format!("sys/class/net/{device}/{file}");
                put_or_keep(kept, sample, &path, &format!("{devices}/{device}/{file}"));
            }
        }
    }

    /// Reads the files of the host's namespace, if that is another one, or records why they cannot be read.
    fn read_host(&self, kept: Option<&Kept>, sample: &mut Sample) {
        let parameters = files::PARAMETERS.iter().map(|parameter| format!("proc/sys/{parameter}"));
        let mut paths: Vec<String> =
            parameters.chain(files::OF_HOST.iter().map(|&path| path.to_owned())).collect();
        let contents = match (&self.host, &self.looked_at) {
            (Ok(host), Ok(looked_at)) if host.is(looked_at) => {
                sample.taken.namespace = NamespaceOwner::Host;
                return;
            }
            (Ok(host), Ok(_)) => {
                sample.taken.namespace = NamespaceOwner::Other;
                let known = |path: &String| kept.and_then(|kept| kept.file(&format!("host/{path}"))).cloned();
                let (kept, read): (Vec<_>, Vec<_>) = paths.drain(..).partition(|path| known(path).is_some());
                sample_kept(sample, &kept, known);
                paths = read;
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

/// Puts files of the host's namespace that were read before.
fn sample_kept(
    sample: &mut Sample,
    paths: &[String],
    known: impl Fn(&String) -> Option<Result<String, Absence>>,
) {
    for path in paths {
        if let Some(content) = known(path) {
            sample.put(format!("host/{path}"), content);
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

/// The CPUs that the quotas of a process's cgroups allow; `None` if it has no quota.
pub fn cpu_quota(pid: u32) -> Option<f64> {
    let mut sample = Sample::default();
    read_all(&mut sample, &format!("proc/{pid}"), files::OF_PROCESS);
    for group in cgroups::of(pid) {
        read_all(&mut sample, &group, files::OF_CGROUP);
    }
    quota_of_process(&sample, pid).ok()?.map(|(cpus, _)| cpus)
}

fn read_process(kept: Option<&Kept>, pid: u32, sample: &mut Sample) {
    read_each(kept, sample, &format!("proc/{pid}"), files::OF_PROCESS);
    for thread in names(&format!("/proc/{pid}/task")).take(THREADS_MAX) {
        read_all(sample, &format!("proc/{pid}/task/{thread}"), files::OF_THREAD);
    }
}

fn read_each(kept: Option<&Kept>, sample: &mut Sample, folder: &str, names: &[&str]) {
    for name in names {
        put_or_keep(kept, sample, &format!("{folder}/{name}"), &format!("/{folder}/{name}"));
    }
}

/// Reads a file, unless what was read of it before still counts.
fn put_or_keep(kept: Option<&Kept>, sample: &mut Sample, path: &str, file: &str) {
    match kept.and_then(|kept| kept.file(path)) {
        Some(content) => sample.put(path, content.clone()),
        None => put(sample, path, file),
    }
}

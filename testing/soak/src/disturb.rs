//! The disturbances, each as it is done, and endpoints that come and go.
//!
//! Must not be in here: when (`schedule`), and what it excuses (`judge`).

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use adversary::Random;
use anyhow::{Context, Result, ensure};
use lab::{Network, Program};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};

use crate::api_server::Objects;
use crate::clock::Clock;
use crate::lock::locked;
use crate::memory::MemoryGroup;
use crate::objects::{self, churn_slice};
use crate::process::Proxy;
use crate::schedule::Entry;
use crate::shared::Shared;
use crate::switch::Switch;
use crate::windows::Kind;

/// Descriptors that are left to the proxy when they run short.
const DESCRIPTORS_LEFT: u64 = 4;
/// Jumps of the wall clock in seconds.
const JUMPS: [i64; 5] = [-3600, 3600, -86_400, 86_400 * 40, 7];

/// Everything that can be disturbed.
pub(crate) struct Stage {
    pub(crate) shared: Arc<Shared>,
    pub(crate) network: Arc<Network>,
    pub(crate) proxy: Arc<Proxy>,
    pub(crate) objects: Objects,
    pub(crate) api: Switch,
    pub(crate) auth: Switch,
    /// The endpoints of Service `churn`.
    pub(crate) churn: Vec<Switch>,
    pub(crate) names: Arc<AtomicBool>,
    pub(crate) redis: Mutex<Option<Program>>,
    /// None where it cannot be built.
    pub(crate) clock: Option<Clock>,
    /// None where no cgroup can be made.
    pub(crate) memory: Option<MemoryGroup>,
    /// The small file system of the cache on disk and of buffered bodies.
    pub(crate) disk: PathBuf,
}

impl Stage {
    /// Does what a list says, until the soak ends.
    pub(crate) fn play(&self, entries: &[Entry], name: &str) {
        let mut random = Random::of_case(self.shared.seed, name, 0);
        for entry in entries {
            let left = entry.at.saturating_sub(self.shared.report.elapsed());
            if !self.pass(left) {
                return;
            }
            self.shared.report.say(&format!("{:?} for {:.1?}", entry.kind, entry.lasts));
            self.shared.windows.open(entry.kind);
            let done = self.disturb(*entry, &mut random);
            self.shared.windows.close(entry.kind);
            match done {
                Ok(true) => self.shared.count(name_of(entry.kind)),
                Ok(false) => self.shared.count("disturbances that this machine does not permit"),
                Err(error) => {
                    self.shared.report.fault(format!("{:?}: {error:#}", entry.kind));
                    if matches!(entry.kind, Kind::Kill | Kind::Restart) {
                        self.shared.has_given_up.store(true, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    /// Does it; false where this machine does not permit it.
    fn disturb(&self, entry: Entry, random: &mut Random) -> Result<bool> {
        let Entry { kind, lasts, .. } = entry;
        match kind {
            Kind::Kill => self.proxy.kill()?,
            Kind::Restart => self.proxy.restart()?,
            Kind::Pause => {
                self.proxy.signal(Signal::STOP)?;
                self.pass(lasts);
                self.proxy.signal(Signal::CONT)?;
            }
            Kind::Clock => {
                let Some(clock) = &self.clock else { return Ok(false) };
                clock.set(*random.pick(&JUMPS))?;
                self.pass(lasts);
                clock.set(0)?;
            }
            Kind::Descriptors => self.shorten_descriptors(lasts)?,
            Kind::Memory => {
                let Some(memory) = &self.memory else { return Ok(false) };
                let pid = self.proxy.pid().context("no process")?;
                memory.squeeze(pid)?;
                self.pass(lasts);
                memory.release()?;
            }
            Kind::Api => self.switch_off(&self.api, lasts, random.once_in(2)),
            Kind::Auth => self.switch_off(&self.auth, lasts, false),
            Kind::Names => {
                self.names.store(false, Ordering::Relaxed);
                self.pass(lasts);
                self.names.store(true, Ordering::Relaxed);
            }
            Kind::Redis => return self.disturb_redis(lasts, random.once_in(2)),
            Kind::Disk => self.fill_disk(lasts)?,
        }
        Ok(true)
    }

    fn switch_off(&self, switch: &Switch, lasts: Duration, forgets: bool) {
        switch.set(false);
        self.pass(lasts);
        if forgets {
            self.objects.compact();
        }
        switch.set(true);
    }

    fn shorten_descriptors(&self, lasts: Duration) -> Result<()> {
        let pid = self.proxy.pid().context("no process")?;
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let limit = |current| {
            prlimit(Some(pid), Resource::Nofile, Rlimit { current, maximum })
                .context("no limit of descriptors")
        };
        limit(Some(open_descriptors(pid)? + DESCRIPTORS_LEFT))?;
        self.pass(lasts);
        limit(maximum).map(drop)
    }

    /// Stops the server, or kills it, so that what it has counted is lost.
    fn disturb_redis(&self, lasts: Duration, is_killed: bool) -> Result<bool> {
        let mut redis = locked(&self.redis);
        let Some(program) = redis.as_ref() else { return Ok(false) };
        if is_killed {
            *redis = None;
            self.pass(lasts);
            *redis = Some(start_redis(&self.network, self.shared.report.folder())?);
        } else {
            program.signal(Signal::STOP);
            self.pass(lasts);
            program.signal(Signal::CONT);
        }
        Ok(true)
    }

    fn fill_disk(&self, lasts: Duration) -> Result<()> {
        let path = self.disk.join("filler");
        let mut file = File::create(&path)?;
        // Ends when there is no more room.
        while file.write_all(&[0; 4096]).is_ok() {}
        self.pass(lasts);
        drop(file);
        Ok(fs::remove_file(&path)?)
    }

    /// Endpoints of a Service come and go, one after the other: an endpoint is taken out of its slice first,
    /// finishes its requests, and comes back later.
    pub(crate) fn churn(&self) {
        let mut random = Random::of_case(self.shared.seed, "churn", 0);
        loop {
            let number = random.below(self.churn.len());
            let mut pause = || Duration::from_millis(200 + random.below(1500) as u64);
            let told = pause();
            let gone = pause();
            let back = pause();
            self.objects.delete(&churn_slice(number));
            self.pass(told);
            self.churn[number].set(false);
            self.pass(gone);
            self.churn[number].set(true);
            self.objects.apply(churn_slice(number));
            self.shared.count("endpoints that went and came");
            if !self.pass(back) {
                return;
            }
        }
    }

    /// Lets time pass. False, and earlier, if the soak ends.
    fn pass(&self, time: Duration) -> bool {
        const STEP: Duration = Duration::from_millis(50);
        let end = std::time::Instant::now() + time;
        while self.shared.is_running() {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(STEP));
        }
        false
    }
}

/// The number of descriptors that a process has open.
pub(crate) fn open_descriptors(pid: Pid) -> Result<u64> {
    let folder = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).context("no process")?;
    Ok(folder.count() as u64)
}

/// Starts Redis in the backend's namespace.
pub(crate) fn start_redis(network: &Network, folder: &Path) -> Result<Program> {
    let address = objects::redis();
    let mut command = Command::new("redis-server");
    command.args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.args(["--save", "", "--appendonly", "no", "--protected-mode", "no", "--dir"]).arg(folder);
    network.backend.enter(|| {
        let mut program = Program::start("redis", command, folder)?;
        program.wait_for(address)?;
        ensure!(program.has_ended()?.is_none(), "Redis has ended");
        Ok(program)
    })
}

/// The name of a disturbance in the report.
fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Kill => "kill -9",
        Kind::Restart => "restarts by a successor",
        Kind::Pause => "standstills of the process",
        Kind::Clock => "jumps of the wall clock",
        Kind::Descriptors => "shortages of descriptors",
        Kind::Memory => "shortages of memory",
        Kind::Api => "outages of the API server",
        Kind::Auth => "outages of the auth service",
        Kind::Redis => "outages of Redis",
        Kind::Names => "outages of the name server",
        Kind::Disk => "full disks",
    }
}

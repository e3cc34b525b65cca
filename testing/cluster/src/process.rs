//! A component: a child process with its output in a file, which ends with its parent.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// Makes the program end when its standard input does (`kubernetes/main.go`): when this process ends, however
/// it does.
const END_WITH_INPUT: &str = "END_WITH_INPUT";
/// The component that removes processes and network interfaces on a signal. The others have only disposable
/// state.
const CLEANS_UP: &str = "kubelet";
const STOP_LIMIT: Duration = Duration::from_secs(10);
const LOG_LINES: usize = 20;

/// The program that is all components, and how it is run.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) binary: PathBuf,
    pub(crate) niceness: u8,
}

#[derive(Debug)]
pub(crate) struct Process {
    component: &'static str,
    program: Program,
    arguments: Vec<String>,
    log: PathBuf,
    child: Child,
}

impl Process {
    pub(crate) fn start(
        program: &Program,
        component: &'static str,
        arguments: impl IntoIterator<Item = String>,
        folder: &Path,
    ) -> Result<Process> {
        let log = folder.join("logs").join(format!("{component}.log"));
        let arguments: Vec<_> = arguments.into_iter().collect();
        let child = spawn(program, component, &arguments, &log)?;
        Ok(Process { component, program: program.clone(), arguments, log, child })
    }

    /// An error, with the end of its output, if it has ended.
    pub(crate) fn check(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        bail!("{} ended with {status}:\n{last}", self.component)
    }

    pub(crate) fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    pub(crate) fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    pub(crate) fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it once more, as it was.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.kill();
        self.child = spawn(&self.program, self.component, &self.arguments, &self.log)?;
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal).with_context(|| self.component)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let end = Instant::now() + STOP_LIMIT;
        if self.component == CLEANS_UP && self.signal(Signal::TERM).is_ok() {
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
                thread::sleep(crate::LOOK);
            }
        }
        self.kill();
    }
}

/// In a process group of its own: who interrupts a test from the keyboard leaves the order of the end to it.
fn spawn(program: &Program, component: &str, arguments: &[String], log: &Path) -> Result<Child> {
    let output = File::options().create(true).append(true).open(log)?;
    // Threads inherit it from the one that starts them, so that it has to be there from the beginning.
    let mut command = Command::new("nice");
    command.arg("-n").arg(program.niceness.to_string()).arg(&program.binary);
    command.arg(component).args(arguments).env(END_WITH_INPUT, "yes").process_group(0);
    command.stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output);
    command.spawn().with_context(|| format!("cannot start {component}"))
}

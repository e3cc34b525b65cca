//! Threads that migrate from CPU to CPU.

use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format::cpus;
use crate::read::processes::{self, Switches};
use crate::sample::{Sample, Unknown};
use crate::samples::Samples;
use crate::text::say;

pub(crate) const CHECKS: &[Check] = &[Check {
    id: "cpu-affinity",
    category: "cpu",
    what: "a mostly idle process is moved between CPUs, or preempted, and finds its caches cold each time",
    how: "nr_migrations in /proc/PID/task/TID/sched; context switches and Cpus_allowed_list in its status",
    severity: Verdict::Warning,
    remedy: "pin it: worker_cpu_affinity auto (nginx), kubelet's --cpu-manager-policy=static with whole CPUs as requests \
                 and limits, or taskset -apc CPUS PID",
    case: "B",
    look: cpu_affinity,
}];

/// Migrations a second, and share of all context switches, above which migrations of a process that often
/// waits cost something.
const MIGRATIONS_PER_SECOND: f64 = 250.0;
const MIGRATIONS_PERCENT: f64 = 2.0;
const INVOLUNTARY_PER_SECOND: f64 = 1000.0;

/// With fewer CPUs migrations do not matter.
const CPUS_MIN: usize = 3;

/// Context switches and migrations of a process between the samples, per second.
struct Moves {
    pid: u32,
    name: String,
    cpus: usize,
    voluntary: f64,
    involuntary: f64,
    migrations: Option<f64>,
}

fn cpu_affinity(samples: &Samples) -> Result<Outcome, Unknown> {
    let (first, last) = samples.ends()?;
    let seconds = samples.seconds()?;
    let pids = samples.pids()?;
    let moves: Vec<_> = pids.iter().filter_map(|pid| moves(first, last, *pid, seconds)).collect();
    let Some(worst) = moves.iter().max_by(|a, b| a.badness().total_cmp(&b.badness())) else {
        return Err(Unknown(say!("no thread of the {} processes was seen twice", pids.len())));
    };
    Ok(tell_moves(worst))
}

/// The switches of the threads that are in both samples; `None` if there are none.
fn moves(first: &Sample, last: &Sample, pid: u32, seconds: f64) -> Option<Moves> {
    let online = processes::online_cpus(last);
    let mut sum = Switches::default();
    let mut cpus = 0;
    let mut seen = false;
    for thread in processes::threads(last, pid) {
        let pair = processes::switches(first, &thread).zip(processes::switches(last, &thread));
        let Some((before, now)) = pair else { continue };
        seen = true;
        sum.voluntary += now.voluntary.saturating_sub(before.voluntary);
        sum.involuntary += now.involuntary.saturating_sub(before.involuntary);
        if let Some((before, now)) = before.migrations.zip(now.migrations) {
            sum.migrations = Some(sum.migrations.unwrap_or(0) + now.saturating_sub(before));
        }
        let allowed = processes::allowed_cpus(last, &thread).unwrap_or_default();
        cpus = cpus.max(online.as_ref().map_or(allowed.len(), |online| allowed.intersection(online).count()));
    }
    seen.then(|| Moves {
        pid,
        name: processes::name(last, pid).unwrap_or("?").to_owned(),
        cpus,
        voluntary: sum.voluntary as f64 / seconds,
        involuntary: sum.involuntary as f64 / seconds,
        migrations: sum.migrations.map(|count| count as f64 / seconds),
    })
}

fn tell_moves(moves: &Moves) -> Outcome {
    let who = say!("{} ({})", &moves.name, moves.pid);
    let migrated = match moves.migrations {
        Some(migrations) => say!("moved to another CPU {} times a second", format!("{migrations:.0}")),
        None => say!("moved as often as this kernel does not tell"),
    };
    let counts = say!(
        "{} was {} and taken off its CPU {} times, and waited {} times",
        who,
        migrated,
        format!("{:.0}", moves.involuntary),
        format!("{:.0}", moves.voluntary)
    );
    let outcome = if moves.cpus < CPUS_MIN {
        Outcome::ok(say!("{}; it may run on {}", counts, cpus(moves.cpus)))
    } else if !moves.waits() {
        Outcome::ok(say!("{}: it computes more than it waits", counts))
    } else if moves.is_moved() || moves.involuntary >= INVOLUNTARY_PER_SECOND {
        let remedy = if moves.name == "nginx" {
            say!("worker_cpu_affinity auto; in nginx.conf")
        } else {
            say!(
                "taskset -apc CPUS {}, or for a Pod kubelet's --cpu-manager-policy=static with whole CPUs as requests and limits",
                moves.pid
            )
        };
        Outcome::warning(say!("{}, on {} CPUs: it should stay on one", counts, moves.cpus)).remedy(remedy)
    } else {
        Outcome::ok(counts)
    };
    let outcome = outcome
        .with("pid", u64::from(moves.pid))
        .with("name", moves.name.clone())
        .with("cpus", moves.cpus as u64)
        .with("involuntary_switches_per_second", moves.involuntary)
        .with("voluntary_switches_per_second", moves.voluntary);
    match moves.migrations {
        Some(migrations) => outcome.with("migrations_per_second", migrations),
        None => outcome.with("migrations_per_second", "the kernel has no /proc/PID/sched"),
    }
}

impl Moves {
    /// Whether it gives up its CPU more often than it is preempted.
    fn waits(&self) -> bool {
        self.voluntary > self.involuntary
    }

    fn is_moved(&self) -> bool {
        let switches = self.voluntary + self.involuntary;
        self.migrations.is_some_and(|migrations| {
            migrations >= MIGRATIONS_PER_SECOND && migrations * 100.0 >= switches * MIGRATIONS_PERCENT
        })
    }

    fn badness(&self) -> f64 {
        let counts = self.involuntary + self.migrations.unwrap_or(0.0);
        if self.waits() && self.cpus >= CPUS_MIN { counts } else { counts / 1e6 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Finding;
    use crate::testing::{Scene, scene};

    const CPUS: &str = "cpu  1 2 3 40 5 0\ncpu0 1\ncpu1 1\ncpu2 1\ncpu3 1\nintr 9\n";

    fn status(voluntary: u64, involuntary: u64, cpus: &str) -> String {
        format!(
            "Name:\tserver\nCpus_allowed_list:\t{cpus}\nvoluntary_ctxt_switches:\t{voluntary}\n\
             nonvoluntary_ctxt_switches:\t{involuntary}\n"
        )
    }

    fn sched(migrations: u64) -> String {
        format!(
            "server (7, #threads: 2)\n----------\nse.vruntime                                  :           191.083511\n\
             se.nr_migrations                             :                {migrations}\n"
        )
    }

    /// A process with one thread whose counters begin at 100, sampled ten seconds apart.
    fn server(voluntary: u64, involuntary: u64, cpus: &str) -> Scene {
        scene().pids(&[7]).file("proc/stat", CPUS).file("proc/7/comm", "server\n").grows(
            "proc/7/task/7/status",
            &status(100, 100, cpus),
            &status(100 + voluntary, 100 + involuntary, cpus),
        )
    }

    fn moved(voluntary: u64, involuntary: u64, migrations: u64, cpus: &str) -> Finding {
        server(voluntary, involuntary, cpus)
            .grows("proc/7/task/7/sched", &sched(5), &sched(5 + migrations))
            .finding("cpu-affinity")
    }

    #[test]
    fn a_server_that_is_moved_about_is_found() {
        let finding = moved(40_000, 2_000, 9_000, "0-3");
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(
            finding.message,
            "server (7) was moved to another CPU 900 times a second and taken off its CPU 200 times, and waited 4000 times, \
             on 4 CPUs: it should stay on one"
        );
        assert!(finding.tells("migrations_per_second", 900.0));
        assert!(finding.remedy.starts_with("taskset -apc CPUS 7"), "{}", finding.remedy);
        assert_eq!(moved(40_000, 20_000, 10, "0-3").verdict, Verdict::Warning);
    }

    #[test]
    fn who_stays_computes_or_has_no_choice_is_fine() {
        assert_eq!(moved(40_000, 2_000, 90, "0-3").verdict, Verdict::Ok);
        assert_eq!(moved(1_000, 20_000, 9_000, "0-3").verdict, Verdict::Ok);
        assert_eq!(moved(40_000, 2_000, 9_000, "2").verdict, Verdict::Ok);
        // The mask may hold CPUs that could be added to the machine; two of those in the mask exist.
        assert_eq!(moved(40_000, 2_000, 9_000, "2-127").verdict, Verdict::Ok);
        // One of 200 switches is a migration.
        assert_eq!(moved(1_000_000, 2_000, 5_000, "0-3").verdict, Verdict::Ok);
    }

    #[test]
    fn a_kernel_without_sched_is_judged_by_switches() {
        let finding = server(40_000, 20_000, "0-3").lacks("proc/7/task/7/sched").finding("cpu-affinity");
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(finding.text("migrations_per_second"), "the kernel has no /proc/PID/sched");
    }

    #[test]
    fn a_process_that_is_gone_is_unknown() {
        let gone = scene().pids(&[7]).file("proc/stat", CPUS).lacks("proc/7/comm").finding("cpu-affinity");
        assert_eq!(gone.verdict, Verdict::Unknown);
        assert!(gone.message.contains("no thread of the 1 processes was seen twice"), "{}", gone.message);
        assert_eq!(scene().finding("cpu-affinity").verdict, Verdict::Unknown);
    }
}

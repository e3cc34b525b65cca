//! Limits of a process and of the machine: open files, tracked connections.

use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format::{count, percent};
use crate::read::{conntrack as track, limits};
use crate::sample::{Sample, Unknown};
use crate::samples::Samples;
use crate::sockets::SocketGroup;
use crate::text::{Text, say};

/// Shares of a limit above which it is near, and almost reached.
const NEAR: f64 = 0.7;
const REACHED: f64 = 0.9;
/// A conntrack table that is more than half full has little left for a burst.
const HALF: f64 = 0.5;

/// The timeouts that field case A recommends, in seconds.
const TIMEOUTS: &[(&str, u64)] =
    &[("established", 1200), ("close_wait", 15), ("fin_wait", 30), ("time_wait", 30)];

const COUNT: &str = "proc/sys/net/netfilter/nf_conntrack_count";

pub(crate) const CHECKS: &[Check] = &[
    Check {
        id: "files-limit",
        category: "limits",
        what: "a process runs out of file descriptors: a proxied request holds two",
        how: "\"Max open files\" in /proc/PID/limits against the sockets that the process holds (sock_diag); \
              fs.file-nr against fs.file-max",
        severity: Verdict::Failure,
        remedy: "nginx `worker_rlimit_nofile 655350;`, systemd `LimitNOFILE=655350`; sysctl -w fs.file-max=655350",
        case: "A",
        look: files_limit,
    },
    Check {
        id: "conntrack",
        category: "limits",
        what: "the connection tracking table is full or loses entries: packets of new connections are dropped",
        how: "nf_conntrack_count against nf_conntrack_max; drop, early_drop and insert_failed in /proc/net/stat/nf_conntrack; long timeouts if the table is more than half full",
        severity: Verdict::Failure,
        remedy: "sysctl -w net.netfilter.nf_conntrack_max=2097152 \
                 net.netfilter.nf_conntrack_tcp_timeout_established=1200 \
                 net.netfilter.nf_conntrack_tcp_timeout_time_wait=30 \
                 net.netfilter.nf_conntrack_tcp_timeout_fin_wait=30 \
                 net.netfilter.nf_conntrack_tcp_timeout_close_wait=15",
        case: "A, B",
        look: conntrack,
    },
];

/// A process, the sockets that it holds, and its limit of open files.
struct Holder {
    pid: u32,
    name: Text,
    held: u64,
    soft: u64,
    hard: u64,
}

impl Holder {
    fn fill(&self) -> f64 {
        self.held as f64 / self.soft.max(1) as f64
    }
}

fn files_limit(samples: &Samples) -> Result<Outcome, Unknown> {
    let sample = samples.last()?;
    let (open, open_max) = files_of_machine(sample)?;
    let fill = open as f64 / open_max.max(1) as f64;
    if fill >= NEAR {
        let (verdict, message) = (
            if fill >= REACHED { Verdict::Failure } else { Verdict::Warning },
            say!("{} of the {} files of the machine are open", count(open), count(open_max)),
        );
        let outcome = Outcome::new(verdict, message).remedy(say!("sysctl -w fs.file-max={}", open_max * 4));
        return Ok(outcome.with("open_files", open).with("file_max", open_max));
    }
    let fullest = fullest(samples, &samples.sockets()?)?;
    let Holder { pid, name, held, soft, hard } = &fullest;
    let message =
        say!("{} (pid {}) holds {} sockets and may hold {} files", name, pid, count(*held), count(*soft));
    let outcome = match fullest.fill() {
        fill if fill >= REACHED => Outcome::failure(message),
        fill if fill >= NEAR => Outcome::warning(message),
        _ => Outcome::ok(message),
    };
    Ok(outcome
        .with("pid", u64::from(*pid))
        .with("process", name.english())
        .with("sockets", *held)
        .with("soft_limit", *soft)
        .with("hard_limit", *hard)
        .with("open_files", open)
        .with("file_max", open_max))
}

/// Open files of the machine, and their limit (`proc_sys_fs(5)`).
fn files_of_machine(sample: &Sample) -> Result<(u64, u64), Unknown> {
    let text = sample.text("proc/sys/fs/file-nr")?;
    let open = text.split_whitespace().next().and_then(|first| first.parse().ok());
    let open = open.ok_or_else(|| Unknown(say!("/proc/sys/fs/file-nr holds no number")))?;
    Ok((open, sample.number("proc/sys/fs/file-max")?))
}

/// The examined process that is nearest to its limit.
fn fullest(samples: &Samples, sockets: &[SocketGroup]) -> Result<Holder, Unknown> {
    let sample = samples.last()?;
    let holders = samples.pids()?.iter().map(|&pid| holder(sample, sockets, pid));
    let fuller = |one: Holder, other: Holder| if other.fill() > one.fill() { other } else { one };
    let fullest = holders.reduce(|one, other| match (one, other) {
        (Ok(one), Ok(other)) => Ok(fuller(one, other)),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
        (Err(_), Err(why)) => Err(why),
    });
    fullest.unwrap_or_else(|| Err(Unknown(say!("there is no process"))))
}

fn holder(sample: &Sample, sockets: &[SocketGroup], pid: u32) -> Result<Holder, Unknown> {
    let (soft, hard) = limits::open_files(sample, pid)?;
    let name = sample
        .text(&format!("proc/{pid}/comm"))
        .map_or_else(|_| say!("a process"), |name| Text::from(name.trim()));
    let of_process =
        sockets.iter().filter(|group| group.owner.as_ref().is_some_and(|owner| owner.pid == pid));
    Ok(Holder { pid, name, held: of_process.map(|group| group.count).sum(), soft, hard })
}

fn conntrack(samples: &Samples) -> Result<Outcome, Unknown> {
    let sample = samples.last()?;
    if sample.lacks(COUNT) {
        return Ok(Outcome::ok(say!("connections are not tracked here")));
    }
    let entries: u64 = sample.number(COUNT)?;
    let max: u64 = sample.number("proc/sys/net/netfilter/nf_conntrack_max")?;
    // A kernel may be built without the file; the number of entries and their limit suffice for a verdict.
    let is_counted = !sample.lacks(track::PATH);
    let grown = |name| {
        if is_counted { samples.growth(|sample| track::counter(sample, name)) } else { Ok(0) }
    };
    let drops = grown("drop")?;
    let early_drops = grown("early_drop")?;
    let failed = grown("insert_failed")?;
    let fill = entries as f64 / max.max(1) as f64;
    let full = say!("{} of {} entries are taken ({})", count(entries), count(max), percent(fill));
    let outcome = if drops + early_drops > 0 {
        Outcome::failure(say!(
            "{} connections were dropped for want of room; {}",
            count(drops + early_drops),
            full
        ))
    } else if fill >= REACHED {
        Outcome::failure(full)
    } else if failed > 0 {
        Outcome::warning(say!("{} packets were dropped because entries clashed; {}", count(failed), full))
    } else if fill > HALF {
        Outcome::warning(say!("{}{}", full, long_timeouts(sample)))
    } else if is_counted {
        Outcome::ok(full)
    } else {
        Outcome::ok(say!("{}; this kernel does not tell of drops", full))
    };
    let outcome = outcome.with("entries", entries).with("entries_max", max);
    let outcome = if is_counted {
        outcome.with("drops", drops).with("early_drops", early_drops).with("inserts_failed", failed)
    } else {
        outcome
    };
    Ok(timeouts(sample).fold(outcome, |outcome, (name, seconds, _)| {
        outcome.with(format!("timeout_{name}_seconds"), seconds)
    }))
}

/// The timeouts that the sample holds: name, seconds, and the recommendation of case A.
fn timeouts(sample: &Sample) -> impl Iterator<Item = (&'static str, u64, u64)> {
    TIMEOUTS.iter().filter_map(|&(name, better)| {
        let path = format!("proc/sys/net/netfilter/nf_conntrack_tcp_timeout_{name}");
        Some((name, sample.number(&path).ok()?, better))
    })
}

fn long_timeouts(sample: &Sample) -> Text {
    let long = timeouts(sample).filter(|(_, seconds, better)| *seconds > better * 10);
    long.map(|(name, seconds, _)| say!("; {} ones stay for {} s", name, count(seconds))).collect()
}

#[cfg(test)]
mod tests {
    use crate::Verdict;
    use crate::sockets::State;
    use crate::testing::{Scene, incoming, outgoing, scene};

    const NETFILTER: &str = "proc/sys/net/netfilter";

    fn holding(sockets: u64, soft: &str) -> Scene {
        let groups = [
            incoming(State::Established, "10.0.0.1:80", sockets / 2).of(7, "nginx"),
            outgoing(State::Established, "10.0.0.2:80", sockets - sockets / 2).of(7, "nginx"),
            outgoing(State::Established, "10.0.0.3:80", 5000).of(9, "wrk"),
        ];
        scene()
            .pids(&[7])
            .sockets(&groups)
            .file("proc/7/comm", "nginx\n")
            .file("proc/7/limits", &format!("Max open files            {soft}    524288    files\n"))
            .file("proc/sys/fs/file-nr", "2000\t0\t1000000\n")
            .file("proc/sys/fs/file-max", "1000000\n")
    }

    #[test]
    fn sockets_are_judged_by_the_limit_of_their_process() {
        let finding = holding(950, "1024").finding("files-limit");
        assert_eq!(finding.verdict, Verdict::Failure);
        assert_eq!(finding.message, "nginx (pid 7) holds 950 sockets and may hold 1,024 files");
        assert_eq!((finding.number("soft_limit"), finding.number("hard_limit")), (1024.0, 524_288.0));
        assert_eq!(holding(800, "1024").finding("files-limit").verdict, Verdict::Warning);
        assert_eq!(holding(100, "1024").finding("files-limit").verdict, Verdict::Ok);
        assert_eq!(holding(950, "unlimited").finding("files-limit").verdict, Verdict::Ok);
    }

    #[test]
    fn the_files_of_the_machine_are_bounded_too() {
        let finding = holding(1, "1024").file("proc/sys/fs/file-nr", "950\t0\t1000\n");
        let finding = finding.file("proc/sys/fs/file-max", "1000\n").finding("files-limit");
        assert_eq!(finding.verdict, Verdict::Failure);
        assert_eq!(finding.message, "950 of the 1,000 files of the machine are open");
    }

    #[test]
    fn a_process_that_ended_is_not_judged() {
        let finding = holding(1, "1024").lacks("proc/7/limits").finding("files-limit");
        assert_eq!(finding.message, "not checked: there is no /proc/7/limits");
        let finding = holding(1, "1024").pids(&[]).finding("files-limit");
        assert_eq!(finding.message, "not checked: no process was given (--pid), and none listens here");
    }

    fn tracking(entries: u64, last: &str) -> Scene {
        let head = "entries drop early_drop insert_failed\n";
        scene()
            .file(&format!("{NETFILTER}/nf_conntrack_count"), &format!("{entries}\n"))
            .file(&format!("{NETFILTER}/nf_conntrack_max"), "262144\n")
            .file(&format!("{NETFILTER}/nf_conntrack_tcp_timeout_established"), "432000\n")
            .file(&format!("{NETFILTER}/nf_conntrack_tcp_timeout_time_wait"), "120\n")
            .grows("proc/net/stat/nf_conntrack", &format!("{head}1 0 0 0\n"), &format!("{head}{last}\n"))
    }

    #[test]
    fn a_table_that_drops_is_the_failure() {
        let finding = tracking(262_144, "1 c8 a 1").finding("conntrack");
        assert_eq!(finding.verdict, Verdict::Failure);
        assert_eq!(
            finding.message,
            "210 connections were dropped for want of room; 262,144 of 262,144 entries are taken (100 %)"
        );
        assert_eq!((finding.number("drops"), finding.number("inserts_failed")), (200.0, 1.0));
        assert_eq!(tracking(250_000, "1 0 0 0").finding("conntrack").verdict, Verdict::Failure);
        assert_eq!(tracking(10, "1 0 0 1").finding("conntrack").verdict, Verdict::Warning);
    }

    #[test]
    fn long_timeouts_matter_once_the_table_is_half_full() {
        let finding = tracking(150_000, "1 0 0 0").finding("conntrack");
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(
            finding.message.ends_with("(57 %); established ones stay for 432,000 s"),
            "{}",
            finding.message
        );
        assert_eq!(tracking(1000, "1 0 0 0").finding("conntrack").verdict, Verdict::Ok);
    }

    #[test]
    fn a_kernel_that_does_not_count_drops_is_judged_by_how_full_the_table_is() {
        let verdict =
            |entries| tracking(entries, "").lacks("proc/net/stat/nf_conntrack").finding("conntrack");
        assert_eq!(verdict(250_000).verdict, Verdict::Failure);
        assert!(verdict(10).message.ends_with("does not tell of drops"));
        let hidden = tracking(10, "").forbids("proc/net/stat/nf_conntrack").finding("conntrack");
        assert_eq!(hidden.verdict, Verdict::Unknown);
    }

    #[test]
    fn no_tracking_is_fine_and_no_permission_is_not() {
        let count = format!("{NETFILTER}/nf_conntrack_count");
        let none = scene().lacks(&count).finding("conntrack");
        assert_eq!((none.verdict, &none.message[..]), (Verdict::Ok, "connections are not tracked here"));
        assert_eq!(scene().forbids(&count).finding("conntrack").verdict, Verdict::Unknown);
    }
}

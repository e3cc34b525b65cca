//! Local ports of outgoing connections: how many there are, and what holds them.

use std::collections::BTreeMap;

use super::subject::Subject;
use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format::{count, percent, whole};
use crate::read::metrics::{PORTS_EXHAUSTED, Pages};
use crate::read::{counters, ports, sockets};
use crate::sample::{Sample, Unknown};
use crate::samples::Samples;
use crate::sockets::{Direction, SocketGroup, State};
use crate::text::say;

/// The kernel gives out ports of one parity first, and searches the other half when those are taken: beyond
/// half of the range each connect costs a search.
const HALF: f64 = 0.5;
/// Above this share, connects occasionally find no free port.
const FULL: f64 = 0.8;
/// The size of Linux' default range, 32768 to 60999.
const DEFAULT_SIZE: u64 = 28_232;
/// How long the kernel keeps a `TIME_WAIT` (`TCP_TIMEWAIT_LEN` in `include/net/tcp.h`).
const TIME_WAIT_SECONDS: f64 = 60.0;
/// `TIME_WAIT`s towards one address are reported above this share of the range, or above the number that
/// follows.
const TIME_WAIT_SHARE: f64 = 0.25;
const TIME_WAIT_MANY: u64 = 4000;

pub(crate) const CHECKS: &[Check] = &[
    Check {
        id: "port-range",
        category: "ports",
        what: "too few local ports for outgoing connections: connects become slow, and then fail with EADDRNOTAVAIL",
        how: "sockets by local address and remote (sock_diag) against ip_local_port_range: half of it is a warning, four fifths or a connect without a port a failure; a range narrower than Linux's default is a warning",
        severity: Verdict::Failure,
        remedy: "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\" in this network namespace (a Pod: \
                 securityContext.sysctls), and keep connections instead of opening new ones (upstream-reuse)",
        case: "D, E",
        look: port_range,
    },
    Check {
        id: "time-wait",
        category: "ports",
        what: "connections that this side closes first become TIME_WAIT and hold its ports for a minute",
        how: "TIME_WAIT by remote and by local port (sock_diag); TCPTimeWaitOverflow in /proc/net/netstat; tcp_tw_reuse",
        severity: Verdict::Warning,
        remedy: "keep connections (upstream-reuse, pool-too-small); sysctl -w net.ipv4.tcp_tw_reuse=1 \
                 net.ipv4.tcp_timestamps=1 lets new connections take their ports",
        case: "D",
        look: time_wait,
    },
];

/// The ports that connections between one local and one remote address hold.
#[derive(Clone, Debug, Default)]
struct Pair {
    local: String,
    remote: String,
    used: u64,
}

fn port_range(samples: &Samples) -> Result<Outcome, Unknown> {
    let range = ports::range(samples.last()?)?;
    let pair = most_used(samples)?;
    let share = pair.used as f64 / range.size.max(1) as f64;
    let seconds_left = seconds_left(samples, &pair, range.size);
    let exhausted = Pages::of(samples).ok().and_then(|pages| pages.growth(PORTS_EXHAUSTED)).unwrap_or(0.0);
    let size = count(range.size);
    let used = say!(
        "{} of {} ports are in use towards {} ({})",
        count(pair.used),
        size,
        &pair.remote,
        percent(share)
    );
    let outcome = if exhausted > 0.0 {
        Outcome::failure(say!("{} connects found no local port; {}", whole(exhausted), used))
    } else if share >= 0.99 {
        Outcome::failure(say!("{}: connects fail with EADDRNOTAVAIL", used))
    } else if share > FULL {
        Outcome::failure(used)
    } else if let Some(left) = seconds_left.filter(|left| *left < TIME_WAIT_SECONDS) {
        Outcome::warning(say!(
            "{}; at this rate none are left in {} minutes",
            used,
            format!("{:.1}", left / 60.0)
        ))
    } else if share > HALF {
        Outcome::warning(used)
    } else if range.size < DEFAULT_SIZE {
        let by_default = count(DEFAULT_SIZE);
        Outcome::warning(say!("the port range holds {} ports, {} are Linux's default", size, by_default))
    } else if pair.used > 0 {
        Outcome::ok(used)
    } else {
        Outcome::ok(say!("no connection holds any of {} ports", size))
    };
    let outcome = outcome
        .with("range", format!("{} {}", range.first, range.last))
        .with("range_size", range.size)
        .with("ports_in_use", pair.used)
        .with("in_use_percent", share * 100.0)
        .with("remote", pair.remote)
        .with("local", pair.local)
        .with("connects_without_port", exhausted);
    Ok(match seconds_left {
        Some(left) => outcome.with("minutes_left", left / 60.0),
        None => outcome,
    })
}

/// The pair that holds most ports in any sample: ports that are used up at one moment may be free at the
/// next.
fn most_used(samples: &Samples) -> Result<Pair, Unknown> {
    let mut most = Pair::default();
    samples.sockets()?;
    for sample in &samples.all {
        for ((local, remote), used) in pairs(sample) {
            if used > most.used {
                most = Pair { local, remote, used };
            }
        }
    }
    Ok(most)
}

fn pairs(sample: &Sample) -> BTreeMap<(String, String), u64> {
    let mut pairs = BTreeMap::new();
    let groups = sockets::of(sample).unwrap_or_default();
    // A sum over several remotes is not limited by one range.
    let is_one =
        |group: &SocketGroup| group.direction == Direction::Outgoing && group.remote != sockets::OTHERS;
    for group in groups.into_iter().filter(is_one) {
        *pairs.entry((group.local, group.remote)).or_insert(0) += group.count;
    }
    pairs
}

/// Seconds until the pair's ports are used up if their number grows on at the same rate; none if it does not
/// grow.
fn seconds_left(samples: &Samples, pair: &Pair, size: u64) -> Option<f64> {
    let (first, last) = samples.ends().ok()?;
    let key = (pair.local.clone(), pair.remote.clone());
    // Without sockets in the first sample the growth is not known.
    sockets::of(first).ok()?;
    // A sample may repeat the sockets of an earlier one.
    let seconds = last.taken.listed() - first.taken.listed();
    let used = |sample| pairs(sample).get(&key).copied().unwrap_or(0);
    let (before, now) = (used(first), used(last));
    if seconds <= 0.0 {
        return None;
    }
    let per_second = now.checked_sub(before)? as f64 / seconds;
    let left = size.saturating_sub(now) as f64 / per_second;
    left.is_finite().then_some(left)
}

fn time_wait(samples: &Samples) -> Result<Outcome, Unknown> {
    let sample = samples.last()?;
    let sockets = samples.sockets()?;
    let range = ports::range(sample)?;
    let overflows = samples.growth(|sample| counters::tcp_ext(sample, "TCPTimeWaitOverflow"))?;
    let buckets: u64 = sample.number("proc/sys/net/ipv4/tcp_max_tw_buckets")?;
    let reuse: u64 = sample.number("proc/sys/net/ipv4/tcp_tw_reuse")?;
    let subject = Subject::of(&sample.taken, &[], &sockets);
    // The kernel keeps no owner of a TIME_WAIT: with a process that is asked about, those towards its own
    // remotes count.
    let is_theirs = |group: &SocketGroup| sample.taken.pid.is_none() || subject.goes_to(&group.remote);
    let theirs: Vec<_> = sockets.iter().filter(|group| is_theirs(group)).cloned().collect();
    let outgoing = held(&theirs, Direction::Outgoing, |group| &group.remote);
    let incoming = held(&sockets, Direction::Incoming, |group| &group.local);
    let share = outgoing.most as f64 / range.size.max(1) as f64;
    let towards = say!("{} TIME_WAIT towards {}: this side closes first", count(outgoing.most), &outgoing.at);
    let outcome = if outgoing.most >= TIME_WAIT_MANY || share > TIME_WAIT_SHARE {
        let size = count(range.size);
        Outcome::warning(say!("{}, and the port range holds {}", towards, size))
    } else if overflows > 0 {
        let overflows = count(overflows);
        Outcome::warning(say!(
            "{} TIME_WAIT had no room in tcp_max_tw_buckets ({})",
            overflows,
            count(buckets)
        ))
    } else if incoming.most >= TIME_WAIT_MANY {
        let most = count(incoming.most);
        Outcome::ok(say!("{} TIME_WAIT at {}, which cost memory and no ports", most, &incoming.at))
    } else {
        let (out, into) = (count(outgoing.all), count(incoming.all));
        Outcome::ok(say!("{} TIME_WAIT of connections that went out, {} of those that came in", out, into))
    };
    let outcome = if reuse == 1 {
        outcome.remedy(say!("keep connections (upstream-reuse, pool-too-small): tcp_tw_reuse is on already"))
    } else {
        outcome
    };
    Ok(outcome
        .with("outgoing", outgoing.all)
        .with("outgoing_most", outgoing.most)
        .with("remote", outgoing.at)
        .with("incoming", incoming.all)
        .with("incoming_most", incoming.most)
        .with("local", incoming.at)
        .with("overflows", overflows)
        .with("tcp_max_tw_buckets", buckets)
        .with("tcp_tw_reuse", reuse)
        .with("range_size", range.size))
}

/// `TIME_WAIT`s of one direction: their number, and the largest number at or towards one address.
#[derive(Default)]
struct Held {
    all: u64,
    most: u64,
    at: String,
}

fn held(sockets: &[SocketGroup], direction: Direction, address: impl Fn(&SocketGroup) -> &String) -> Held {
    let mut by_address = BTreeMap::<&String, u64>::new();
    for group in sockets.iter().filter(|group| group.direction == direction && group.state == State::TimeWait)
    {
        *by_address.entry(address(group)).or_insert(0) += group.count;
    }
    let of_one = by_address.iter().filter(|(at, _)| **at != sockets::OTHERS);
    let most = of_one.max_by_key(|(_, count)| **count);
    let (at, most) = most.map_or((String::new(), 0), |(at, count)| ((*at).clone(), *count));
    Held { all: by_address.values().sum(), most, at }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, incoming, outgoing, scene};

    const RANGE: &str = "proc/sys/net/ipv4/ip_local_port_range";
    const REMOTE: &str = "10.0.0.2:80";

    fn range(text: &str) -> Scene {
        scene().file(RANGE, text)
    }

    fn holding(used: u64) -> Vec<SocketGroup> {
        let established = outgoing(State::Established, REMOTE, 100).of(7, "nginx");
        vec![
            established,
            outgoing(State::TimeWait, REMOTE, used - 100),
            outgoing(State::TimeWait, "10.0.0.3:80", 9),
        ]
    }

    #[test]
    fn ports_in_use_are_judged_by_the_range() {
        let finding = |used| range("32768 60999").sockets(&holding(used)).finding("port-range");
        let full = finding(27_900);
        assert_eq!(full.verdict, Verdict::Failure);
        assert_eq!(full.message, "27,900 of 28,232 ports are in use towards 10.0.0.2:80 (99 %)");
        assert_eq!((full.number("range_size"), full.text("range")), (28_232.0, "32768 60999"));
        assert!(finding(28_230).message.ends_with("connects fail with EADDRNOTAVAIL"));
        assert_eq!(finding(15_000).verdict, Verdict::Warning);
        assert_eq!(finding(14_000).verdict, Verdict::Ok);
    }

    #[test]
    fn a_narrow_range_is_told_before_it_is_used_up() {
        let finding = range("32768 46883").sockets(&holding(100)).finding("port-range");
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(finding.message, "the port range holds 14,116 ports, 28,232 are Linux's default");
    }

    #[test]
    fn the_time_that_is_left_is_told() {
        let finding = range("32768 60999").sockets_grow(&holding(200), &holding(7200)).finding("port-range");
        assert_eq!(finding.verdict, Verdict::Warning);
        assert!(
            finding.message.ends_with("(26 %); at this rate none are left in 0.5 minutes"),
            "{}",
            finding.message
        );
        assert!((finding.number("minutes_left") - 0.5).abs() < 0.01);
        let mut samples = range("32768 60999").sockets_grow(&holding(200), &holding(7200)).samples();
        let seconds_left = |samples: &Samples| {
            let pair = most_used(samples).expect("sockets");
            seconds_left(samples, &pair, 28_232).map(f64::round)
        };
        assert_eq!(seconds_left(&samples), Some(30.0));
        samples.all[0].taken.listed_seconds = Some(-20.0);
        assert_eq!(seconds_left(&samples), Some(90.0), "the first sample repeats an older list");
        samples.all[1].taken.listed_seconds = Some(-20.0);
        assert_eq!(seconds_left(&samples), None, "both have the same list");
        let slow = range("32768 60999").sockets_grow(&holding(200), &holding(300)).finding("port-range");
        assert_eq!(slow.verdict, Verdict::Ok, "TIME_WAITs end sooner than the ports");
    }

    #[test]
    fn what_forebay_counts_is_believed() {
        let finding =
            range("1024 65535").sockets(&[]).grows("forebay/metrics", "", &format!("{PORTS_EXHAUSTED} 3\n"));
        let finding = finding.finding("port-range");
        assert_eq!(finding.verdict, Verdict::Failure);
        assert!(finding.message.starts_with("3 connects found no local port"), "{}", finding.message);
    }

    #[test]
    fn ports_that_cannot_be_seen_are_unknown() {
        let finding = range("1024 65535").finding("port-range");
        assert_eq!(finding.message, "not checked: /forebay/sockets.json was not captured");
        assert_eq!(range("?").sockets(&[]).finding("port-range").verdict, Verdict::Unknown);
    }

    fn waiting(groups: &[SocketGroup], overflows: u64, reuse: &str) -> Scene {
        range("32768 60999")
            .sockets(groups)
            .netstat(&[("TCPTimeWaitOverflow", overflows)])
            .file("proc/sys/net/ipv4/tcp_max_tw_buckets", "5000\n")
            .file("proc/sys/net/ipv4/tcp_tw_reuse", reuse)
    }

    #[test]
    fn time_wait_towards_an_upstream_is_told_with_what_to_do() {
        let groups = [outgoing(State::TimeWait, REMOTE, 27_900), incoming(State::TimeWait, "10.0.0.1:80", 3)];
        let finding = waiting(&groups, 0, "2\n").finding("time-wait");
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(
            finding.message,
            "27,900 TIME_WAIT towards 10.0.0.2:80: this side closes first, and the port range holds 28,232"
        );
        assert!(finding.remedy.contains("tcp_tw_reuse=1"), "{}", finding.remedy);
        assert_eq!((finding.number("outgoing"), finding.number("incoming")), (27_900.0, 3.0));
        let reused = waiting(&groups, 0, "1\n").finding("time-wait");
        assert!(reused.remedy.ends_with("is on already"), "{}", reused.remedy);
    }

    #[test]
    fn buckets_that_overflow_are_told() {
        let finding = waiting(&[], 12, "2").finding("time-wait");
        assert_eq!(finding.verdict, Verdict::Warning);
        assert_eq!(finding.message, "12 TIME_WAIT had no room in tcp_max_tw_buckets (5,000)");
    }

    #[test]
    fn time_wait_of_other_programs_is_not_held_against_a_process() {
        let groups = [
            outgoing(State::TimeWait, REMOTE, 27_900),
            outgoing(State::Established, REMOTE, 3).of(8, "wrk"),
            outgoing(State::Established, "10.0.0.9:80", 3).of(7, "forebay"),
            outgoing(State::TimeWait, "10.0.0.9:80", 12),
        ];
        let of_all = waiting(&groups, 0, "2").finding("time-wait");
        assert_eq!(of_all.verdict, Verdict::Warning);
        let own = waiting(&groups, 0, "2").pids(&[7]).finding("time-wait");
        assert_eq!(own.message, "12 TIME_WAIT of connections that went out, 0 of those that came in");
    }

    #[test]
    fn time_wait_on_the_servers_side_is_no_loss() {
        let groups = [outgoing(State::TimeWait, REMOTE, 30), incoming(State::TimeWait, "10.0.0.1:80", 6000)];
        let finding = waiting(&groups, 0, "2").finding("time-wait");
        assert_eq!(finding.verdict, Verdict::Ok);
        assert_eq!(finding.message, "6,000 TIME_WAIT at 10.0.0.1:80, which cost memory and no ports");
        let few = waiting(&groups[..1], 0, "2").finding("time-wait");
        assert_eq!(few.message, "30 TIME_WAIT of connections that went out, 0 of those that came in");
    }

    #[test]
    fn time_wait_that_cannot_be_seen_is_unknown() {
        let finding = waiting(&[], 0, "2").forbids("forebay/sockets.json").finding("time-wait");
        assert_eq!(finding.verdict, Verdict::Unknown);
    }
}

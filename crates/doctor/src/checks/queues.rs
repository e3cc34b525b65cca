//! Connections that wait to be accepted, or for an answer to their SYN.

use super::subject;
use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format::count;
use crate::read::counters;
use crate::sample::Unknown;
use crate::samples::Samples;
use crate::sockets::{SocketGroup, State};
use crate::text::{Text, say};

/// Share of connections that wait a second or more above which the QPS suffers.
const LATE_SHARE: f64 = 0.001;

pub(crate) const CHECKS: &[Check] = &[
    Check {
        id: "accept-queue",
        category: "queues",
        what: "clients connect faster than a process accepts, or its queue is too short for a burst",
        how: "ListenOverflows, ListenDrops and SyncookiesSent in /proc/net/netstat; the listeners' queues (sock_diag), bounded by somaxconn or the process's backlog",
        severity: Verdict::Failure,
        remedy: "sysctl -w net.core.somaxconn=65535, and have the process listen with as long a backlog",
        case: "A",
        look: accept_queue,
    },
    Check {
        id: "syn-retry",
        category: "queues",
        what: "SYNs go unanswered: connects take about 1 s, 3 s or 7 s",
        how: "TCPSynRetrans in /proc/net/netstat and AttemptFails in /proc/net/snmp against opened connections; sockets in SYN_SENT",
        severity: Verdict::Failure,
        remedy: "find what drops them: accept-queue or conntrack at the other end, ipvs-reuse behind a Service's address, a firewall in between; reuse connections (upstream-reuse)",
        case: "B",
        look: syn_retry,
    },
];

fn accept_queue(samples: &Samples) -> Result<Outcome, Unknown> {
    let grown = |name| samples.growth(|sample| counters::tcp_ext(sample, name));
    // A connection that finds the queue full increases both counters.
    let (overflows, drops) = (grown("ListenOverflows")?, grown("ListenDrops")?);
    let cookies = grown("SyncookiesSent")?;
    let accepted = samples.growth(|sample| counters::tcp(sample, "PassiveOpens"))?;
    let somaxconn: u64 = samples.last()?.number("proc/sys/net/core/somaxconn")?;
    let sockets = samples.sockets()?;
    let taken = &samples.last()?.taken;
    // The counters are those of the whole namespace; a queue has an owner.
    let may_be_theirs = |group: &SocketGroup| {
        taken.pid.is_none() || subject::pid(group).is_none_or(|pid| taken.pids.contains(&pid))
    };
    let sockets: Vec<_> = sockets.into_iter().filter(may_be_theirs).collect();
    let fullest = fullest(&sockets);
    let (queued, backlog) = fullest.map_or((0, 0), |group| (group.queued, group.backlog));
    let lost = overflows.max(drops);
    let share = lost as f64 / (accepted + lost).max(1) as f64;
    let at = fullest.map_or(Text::none(), |group| say!("; the fullest is {}", name(group)));
    let lost_message = say!("{} attempts to connect found the accept queue full{}", count(lost), at);
    let outcome = if lost > 0 && share >= LATE_SHARE {
        Outcome::failure(lost_message)
    } else if lost > 0 {
        Outcome::warning(lost_message)
    } else if cookies > 0 {
        Outcome::warning(say!("{} SYN cookies were sent: SYNs came faster than answers", count(cookies)))
    } else if queued * 2 > backlog {
        Outcome::warning(say!("{} connections wait to be accepted{}", count(queued), at))
    } else {
        Outcome::ok(say!("no accept queue overflowed"))
    };
    let outcome = match fullest {
        Some(group) => outcome.remedy(longer_queue(group, somaxconn)).with("listener", name(group).english()),
        None => outcome,
    };
    Ok(outcome
        .with("listen_overflows", overflows)
        .with("listen_drops", drops)
        .with("accepted", accepted)
        .with("syncookies_sent", cookies)
        .with("queued", queued)
        .with("backlog", backlog)
        .with("somaxconn", somaxconn))
}

/// The listener with the fullest queue; if several are equally full, the one with the shortest queue.
fn fullest(sockets: &[SocketGroup]) -> Option<&SocketGroup> {
    let listeners = sockets.iter().filter(|group| group.state == State::Listen && group.backlog > 0);
    listeners.max_by(|a, b| {
        let fill = (a.queued * b.backlog).cmp(&(b.queued * a.backlog));
        fill.then_with(|| (b.backlog * a.count).cmp(&(a.backlog * b.count)))
    })
}

/// `0.0.0.0:80 of nginx with 3 of 511`.
fn name(group: &SocketGroup) -> Text {
    let owner = group.owner.as_ref().map_or(Text::none(), |owner| say!(" of {}", &owner.name));
    say!("{}{} with {} of {}", &group.local, owner, count(group.queued), count(group.backlog))
}

/// The kernel takes the smaller of what the process asks for and `somaxconn` (listen(2)).
fn longer_queue(group: &SocketGroup, somaxconn: u64) -> Text {
    let backlog = group.backlog / group.count.max(1);
    if backlog < somaxconn {
        let port = group.local.rsplit(':').next().unwrap_or_default();
        return say!(
            "the process asks for a backlog of {}, the kernel would give {}: nginx `listen {} \
             backlog={};`, others their own setting",
            backlog,
            somaxconn,
            port,
            somaxconn
        );
    }
    say!(
        "sysctl -w net.core.somaxconn=65535, then restart the process; one that asks for a fixed backlog \
         (nginx: 511) needs `listen ... backlog=65535;` as well"
    )
}

fn syn_retry(samples: &Samples) -> Result<Outcome, Unknown> {
    let tcp = |name| samples.growth(|sample| counters::tcp(sample, name));
    let tcp_ext = |name| samples.growth(|sample| counters::tcp_ext(sample, name));
    let timeouts = tcp_ext("TCPTimeouts")?;
    let retried = tcp_ext("TCPSynRetrans");
    let opened = tcp("ActiveOpens")?;
    let accepted = tcp("PassiveOpens")?;
    let failed = tcp("AttemptFails")?;
    let waiting = waiting(&samples.sockets()?);
    let again = retried.clone().unwrap_or(timeouts);
    // The counter includes SYN-ACKs that were sent again.
    let share = again as f64 / (opened + accepted).max(again).max(1) as f64;
    // A kernel without a counter for SYNs counts them among the timeouts.
    let (times, connections) = (count(again), count(opened + accepted));
    let seen = if retried.is_ok() {
        say!("{} SYNs were sent again, with {} connections", times, connections)
    } else {
        say!("{} segments, SYNs among them, timed out, with {} connections", times, connections)
    };
    let outcome = if again >= 10 && share >= 10.0 * LATE_SHARE {
        Outcome::failure(say!("{}: such connects take about 1 s, 3 s or 7 s", seen))
    } else if again >= 3 && share >= LATE_SHARE {
        Outcome::warning(say!("{}: such connects take about 1 s, 3 s or 7 s", seen))
    } else {
        Outcome::ok(seen)
    };
    let outcome = match &waiting {
        Some((remote, _)) => outcome.with("syn_sent_to", remote.as_str()),
        None => outcome,
    };
    let per_second = again as f64 / samples.seconds()?;
    let outcome = if retried.is_ok() { outcome.with("syn_retransmits", again) } else { outcome };
    Ok(outcome
        .with("retransmits_per_second", per_second)
        .with("share_percent", share * 100.0)
        .with("timeouts", timeouts)
        .with("attempts_failed", failed)
        .with("connections_opened", opened)
        .with("connections_accepted", accepted)
        .with("syn_sent", waiting.map_or(0, |(_, all)| all)))
}

/// The address that most connections waiting for a SYN-ACK go to, and the number of all that wait for one.
fn waiting(sockets: &[SocketGroup]) -> Option<(String, u64)> {
    let waiting = || sockets.iter().filter(|group| group.state == State::SynSent);
    let most = waiting().max_by_key(|group| group.count)?;
    Some((most.remote.clone(), waiting().map(|group| group.count).sum()))
}

#[cfg(test)]
mod tests {
    use crate::Verdict;
    use crate::sockets::State;
    use crate::testing::{Scene, listening, outgoing, scene};

    fn accepting(overflows: u64, drops: u64, cookies: u64) -> Scene {
        let netstat = [("ListenOverflows", overflows), ("ListenDrops", drops), ("SyncookiesSent", cookies)];
        scene()
            .netstat(&netstat)
            .snmp(&[("PassiveOpens", 10_000)])
            .file("proc/sys/net/core/somaxconn", "4096\n")
    }

    #[test]
    fn an_accept_queue_that_overflows_is_named() {
        let sockets =
            [listening("0.0.0.0:80").of(7, "nginx").queue(400, 511), listening("[::]:22").queue(0, 128)];
        let finding = accepting(480, 500, 0).sockets(&sockets).finding("accept-queue");
        assert_eq!(finding.verdict, Verdict::Failure);
        assert_eq!(
            finding.message,
            "500 attempts to connect found the accept queue full; the fullest is 0.0.0.0:80 of nginx with 400 of 511"
        );
        assert!(finding.remedy.contains("`listen 80 backlog=4096;`"), "{}", finding.remedy);
        assert_eq!((finding.number("listen_overflows"), finding.number("backlog")), (480.0, 511.0));
    }

    #[test]
    fn where_somaxconn_bounds_the_queue_it_is_what_to_raise() {
        let sockets = [listening("0.0.0.0:80").queue(0, 4096)];
        let finding = accepting(1, 1, 0).sockets(&sockets).finding("accept-queue");
        assert_eq!(finding.verdict, Verdict::Warning, "one in ten thousand");
        assert!(finding.remedy.starts_with("sysctl -w net.core.somaxconn=65535"), "{}", finding.remedy);
    }

    #[test]
    fn accept_queues_without_losses_are_fine_unless_they_fill() {
        let finding = |queued| accepting(0, 0, 0).sockets(&[listening("0.0.0.0:80").queue(queued, 100)]);
        assert_eq!(finding(50).finding("accept-queue").verdict, Verdict::Ok);
        assert_eq!(finding(51).finding("accept-queue").verdict, Verdict::Warning);
        assert_eq!(accepting(0, 0, 5).sockets(&[]).finding("accept-queue").verdict, Verdict::Warning);
    }

    #[test]
    fn accept_queues_that_cannot_be_seen_are_unknown() {
        let finding = accepting(0, 0, 0).forbids("forebay/sockets.json").finding("accept-queue");
        assert_eq!(finding.verdict, Verdict::Unknown);
        assert!(finding.message.ends_with("permission denied"), "{}", finding.message);
    }

    fn connecting(opened: u64, again: u64) -> Scene {
        let snmp = [("ActiveOpens", opened), ("PassiveOpens", 0), ("AttemptFails", 0)];
        scene().snmp(&snmp).netstat(&[("TCPTimeouts", again), ("TCPSynRetrans", again)])
    }

    #[test]
    fn syns_that_are_sent_again_are_counted() {
        let sockets =
            [outgoing(State::SynSent, "10.96.0.1:80", 40), outgoing(State::SynSent, "10.0.0.2:80", 2)];
        let finding = connecting(1000, 300).sockets(&sockets).finding("syn-retry");
        assert_eq!(finding.verdict, Verdict::Failure);
        assert_eq!(
            finding.message,
            "300 SYNs were sent again, with 1,000 connections: such connects take about 1 s, 3 s or 7 s"
        );
        assert_eq!((finding.number("syn_sent"), finding.text("syn_sent_to")), (42.0, "10.96.0.1:80"));
        assert!(finding.tells("retransmits_per_second", 30.0));
    }

    #[test]
    fn a_stray_syn_is_no_finding() {
        let verdict = |opened, again| connecting(opened, again).sockets(&[]).finding("syn-retry").verdict;
        assert_eq!(verdict(10_000, 0), Verdict::Ok);
        assert_eq!(verdict(20, 2), Verdict::Ok);
        assert_eq!(verdict(1000, 3), Verdict::Warning);
        assert_eq!(verdict(0, 50), Verdict::Failure);
    }

    #[test]
    fn an_old_kernel_counts_timeouts_alone() {
        let snmp = [("ActiveOpens", 100), ("PassiveOpens", 0), ("AttemptFails", 0)];
        let old = scene().snmp(&snmp).netstat(&[("TCPTimeouts", 50)]).sockets(&[]);
        let finding = old.finding("syn-retry");
        assert_eq!(finding.verdict, Verdict::Failure);
        assert!(finding.evidence.get("syn_retransmits").is_none());
    }

    #[test]
    fn without_counters_nothing_is_known_of_syns() {
        let finding = scene().sockets(&[]).finding("syn-retry");
        assert_eq!(finding.message, "not checked: /proc/net/netstat was not captured");
    }
}

//! Service addresses by IPVS: reused ports, and endpoints that never finish draining.

use crate::check::Check;
use crate::finding::{Outcome, Verdict};
use crate::format::count;
use crate::read::ipvs::{self, Destination};
use crate::read::kernel;
use crate::sample::{Sample, Unknown};
use crate::samples::Samples;
use crate::text::{Text, say};

pub(crate) const CHECKS: &[Check] = &[
    Check {
        id: "ipvs-reuse",
        category: "ipvs",
        what: "a reused client port hits a connection that IPVS still remembers: its SYN is dropped and sent \
               again a second later (conn_reuse_mode 1 with conntrack before Linux 5.9), or it is sent to where the old one \
               went, even to a Pod that is gone (0)",
        how: "net.ipv4.vs.conn_reuse_mode, conntrack and expire_nodest_conn by kernel version, if /proc/net/ip_vs has services",
        severity: Verdict::Failure,
        remedy: "a kernel from 5.9 on with sysctl -w net.ipv4.vs.conn_reuse_mode=1",
        case: "B",
        look: reuse,
    },
    Check {
        id: "ipvs-drain-stuck",
        category: "ipvs",
        what: "an endpoint that is being removed (weight 0) keeps its connections: ports that are used again renew them, and \
               graceful removal never ends",
        how: "ActiveConn and InActConn of destinations with weight 0 in /proc/net/ip_vs, between two samples",
        severity: Verdict::Failure,
        remedy: "before Linux 5.9 keep connections open in the clients, or use another kube-proxy mode (iptables, nftables); from 5.9 on sysctl -w net.ipv4.vs.conn_reuse_mode=1; remove one \
                 endpoint now with ipvsadm -d -t SERVICE -r ENDPOINT",
        case: "B",
        look: drain_stuck,
    },
];

/// How long IPVS remembers a closed TCP connection (`tcp_timeouts` of the kernel's `ip_vs_proto_tcp.c`,
/// `TIME_WAIT` and `FIN_WAIT`).
const REMEMBERED_SECONDS: f64 = 120.0;

/// In a shorter time between samples a drain cannot be judged.
const DRAIN_SECONDS_MIN: f64 = 3.0;

/// First kernel with `conn_reuse_mode`; distributions have it in some older kernels.
const HAS_MODE: kernel::Version = (4, 1);

/// First kernel that does not drop the SYN in this case (commit f0a5e4d7a594).
const IS_SOLVED: kernel::Version = (5, 9);

/// The place of the table of services: the examined namespace or the host's. `None` if neither has services.
fn in_use(sample: &Sample) -> Result<Option<(&'static str, &str)>, Unknown> {
    const TABLE: &str = "proc/net/ip_vs";
    for place in sample.places(TABLE) {
        let path = format!("{place}{TABLE}");
        if !sample.lacks(&path) {
            let text = sample.text(&path)?;
            if ipvs::has_services(text) {
                return Ok(Some((place, text)));
            }
        }
    }
    Ok(None)
}

fn reuse(samples: &Samples) -> Result<Outcome, Unknown> {
    let sample = samples.last()?;
    let Some((place, text)) = in_use(sample)? else {
        return Ok(Outcome::ok(say!("IPVS is not in use")));
    };
    let (version, release) = kernel::version(sample)?;
    let parameter = |name: &str| {
        let path = format!("{place}proc/sys/net/ipv4/vs/{name}");
        if sample.lacks(&path) { Ok(None) } else { sample.number::<u64>(&path).map(Some) }
    };
    let mode = parameter("conn_reuse_mode")?;
    // The parameter decides only what happens to packets to a Pod that is gone, so that its absence does not
    // matter here.
    let expires = parameter("expire_nodest_conn").ok().flatten();
    let (outcome, conntrack) = match mode {
        None | Some(0) => (not_rescheduled(version, &release, mode.is_some(), expires), None),
        // The parameter does not exist if IPVS was built without conntrack.
        Some(mode) => {
            let conntrack = parameter("conntrack")?.unwrap_or(0);
            (rescheduled(version, &release, mode, conntrack != 0), Some(conntrack))
        }
    };
    let remembered: u64 = ipvs::destinations(text).iter().map(|destination| destination.inactive).sum();
    let mut outcome = outcome.with("kernel", release);
    let figures = [("conn_reuse_mode", mode), ("conntrack", conntrack), ("expire_nodest_conn", expires)];
    for (name, value) in figures.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        outcome = outcome.with(name, value);
    }
    Ok(outcome.with("inactive_connections", remembered))
}

/// Mode is not 0: a new connection with the port of an old one is scheduled again.
fn rescheduled(version: kernel::Version, release: &str, mode: u64, uses_conntrack: bool) -> Outcome {
    if version >= IS_SOLVED {
        return Outcome::ok(say!(
            "conn_reuse_mode is {}, as it should be from Linux 5.9 on ({})",
            mode,
            release
        ));
    }
    if !uses_conntrack {
        return Outcome::ok(say!(
            "conn_reuse_mode is {} and IPVS does without conntrack: no SYN is dropped",
            mode
        ));
    }
    let who = if version < HAS_MODE {
        say!("kube-proxy from 1.19 on leaves it so before Linux 4.1")
    } else {
        say!("kube-proxy from 1.13 on sets it to 0, so it was set again, or another program runs IPVS")
    };
    Outcome::failure(say!("conn_reuse_mode is {} with conntrack on Linux {}: a client's port that is used again costs a dropped SYN and \
         1 s; {}", mode, release, who))
    .remedy(say!("sysctl -w net.ipv4.vs.conn_reuse_mode=0 (removed Pods then keep getting connections); a kernel from 5.9 on needs no such choice"))
}

/// Mode is 0, or the kernel has only that: a new connection with the port of an old one goes to the old
/// destination.
fn not_rescheduled(version: kernel::Version, release: &str, has_mode: bool, expires: Option<u64>) -> Outcome {
    let gone = match expires {
        Some(0) => say!("; when it is gone its packets are dropped silently (expire_nodest_conn 0)"),
        Some(_) => say!("; when it is gone the client gets a reset and tries again (expire_nodest_conn 1)"),
        None => Text::none(),
    };
    let price = say!(
        "a client's port that is used again goes to the Pod that it went to before, even one that is being removed{}",
        gone
    );
    if !has_mode {
        return Outcome::warning(say!("Linux {} has no conn_reuse_mode: {}", release, price))
            .remedy(say!("a kernel from 5.9 on; until then keep connections open in the clients, and sysctl -w net.ipv4.vs.expire_nodest_conn=1"));
    }
    if version >= IS_SOLVED {
        return Outcome::warning(say!(
            "conn_reuse_mode is 0 on Linux {}, a leftover of kube-proxy before 1.22 or of a sysctl.conf: {}",
            release,
            price
        ))
        .remedy(say!("sysctl -w net.ipv4.vs.conn_reuse_mode=1 (kube-proxy from 1.22 on leaves it so)"));
    }
    let who = if version < HAS_MODE { Text::none() } else { say!(", as kube-proxy from 1.13 on sets it") };
    let remedy =
        say!("a kernel from 5.9 on with conn_reuse_mode=1; until then keep connections open in the clients");
    let remedy = match expires {
        Some(0) => say!("sysctl -w net.ipv4.vs.expire_nodest_conn=1; {}", remedy),
        _ => remedy,
    };
    Outcome::warning(say!("conn_reuse_mode is 0 on Linux {}{}: {}", release, who, price)).remedy(remedy)
}

fn drain_stuck(samples: &Samples) -> Result<Outcome, Unknown> {
    let last = samples.last()?;
    let Some((place, text)) = in_use(last)? else {
        return Ok(Outcome::ok(say!("IPVS is not in use")));
    };
    let draining: Vec<_> = drained(text).collect();
    if draining.is_empty() {
        return Ok(Outcome::ok(say!("no destination of weight 0 has connections")));
    }
    let (first, _) = samples.ends()?;
    // Files that were copied by hand may have no times.
    let seconds = samples.seconds().ok();
    if let Some(seconds) = seconds.filter(|seconds| *seconds < DRAIN_SECONDS_MIN) {
        return Err(Unknown(say!(
            "{} destinations of weight 0 have connections, and {} s do not tell whether they fall (--watch 30s)",
            draining.len(),
            format!("{seconds:.1}")
        )));
    }
    let before = ipvs::destinations(first.text(&format!("{place}proc/net/ip_vs"))?);
    let stuck = draining.iter().filter_map(|now| Some((stays(&before, now)?, now)));
    let all = stuck.clone().count();
    let Some((was, worst)) = stuck.max_by_key(|(_, now)| now.connections()) else {
        return Ok(Outcome::ok(say!("the connections of {} destinations of weight 0 fall", draining.len())));
    };
    Ok(judge_drain(was, worst, seconds).with("destinations", all as u64))
}

fn drained(text: &str) -> impl Iterator<Item = Destination> {
    ipvs::destinations(text).into_iter().filter(|one| one.weight == 0 && one.connections() > 0)
}

/// The destination in the first sample, if it was draining then already and has no fewer connections now.
fn stays<'a>(before: &'a [Destination], now: &Destination) -> Option<&'a Destination> {
    before.iter().find(|was| {
        was.service == now.service
            && was.address == now.address
            && was.weight == 0
            && now.connections() >= was.connections()
    })
}

fn judge_drain(was: &Destination, now: &Destination, seconds: Option<f64>) -> Outcome {
    let span =
        seconds.map_or(say!("between two samples"), |seconds| say!("in {} s", format!("{seconds:.0}")));
    let counts = say!(
        "{} has weight 0 for {} and went from {} to {} connections {} ({} active, {} inactive)",
        now.address.to_string(),
        &now.service,
        count(was.connections()),
        count(now.connections()),
        span,
        count(now.active),
        count(now.inactive)
    );
    let outcome = if now.inactive == 0 {
        Outcome::warning(say!("{}: clients keep them open", counts))
            .remedy(say!("close them: have the endpoint end its keep-alive connections when it has to stop (preStop hook, SIGTERM)"))
    } else if seconds.is_some_and(|seconds| seconds >= REMEMBERED_SECONDS)
        || now.connections() > was.connections()
    {
        Outcome::failure(say!(
            "{}: ports that are used again renew them, so that its removal does not end",
            counts
        ))
    } else {
        Outcome::warning(say!(
            "{}; IPVS remembers a closed connection for 120 s, so that --watch 130s makes it certain",
            counts
        ))
    };
    let outcome = match seconds {
        Some(seconds) => outcome.with("seconds", seconds),
        None => outcome,
    };
    outcome
        .with("destination", now.address.to_string())
        .with("service", now.service.clone())
        .with("active", now.active)
        .with("inactive", now.inactive)
        .with("connections_before", was.connections())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::NamespaceOwner;
    use crate::testing::{Scene, scene};

    const PATH: &str = "proc/net/ip_vs";

    fn table(destinations: &str) -> String {
        format!(
            "IP Virtual Server version 1.2.1 (size=4096)\n\
             Prot LocalAddress:Port Scheduler Flags\n\
             \x20 -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n\
             TCP  0A600001:0050 rr  \n{destinations}"
        )
    }

    fn line(weight: u64, active: u64, inactive: u64) -> String {
        format!("  -> 0A00020F:1F90      Masq    {weight:<6} {active:<10} {inactive:<10}\n")
    }

    fn node(release: &str, mode: &str, conntrack: &str, expire: &str) -> Scene {
        scene()
            .file(PATH, &table(&line(1, 3, 32_000)))
            .file("proc/sys/kernel/osrelease", release)
            .file("proc/sys/net/ipv4/vs/conn_reuse_mode", mode)
            .file("proc/sys/net/ipv4/vs/conntrack", conntrack)
            .file("proc/sys/net/ipv4/vs/expire_nodest_conn", expire)
    }

    #[test]
    fn the_mode_is_judged_by_the_kernel() {
        // Case B's node: Kubernetes 1.19.12 on a kernel that had the parameter from its distribution.
        let finding = node("3.10.0-1160.el7.x86_64\n", "1\n", "1\n", "1\n").finding("ipvs-reuse");
        assert_eq!(finding.verdict, Verdict::Failure, "{}", finding.message);
        assert!(finding.message.contains("kube-proxy from 1.19 on leaves it so"), "{}", finding.message);
        assert!(finding.remedy.starts_with("sysctl -w net.ipv4.vs.conn_reuse_mode=0"));
        assert!(finding.tells("inactive_connections", 32_000.0));

        for (release, mode, conntrack, verdict) in [
            ("5.4.0-91-generic\n", "1\n", "1\n", Verdict::Failure),
            ("5.8.18\n", "2\n", "1\n", Verdict::Failure),
            ("5.4.0\n", "1\n", "0\n", Verdict::Ok),
            ("3.10.0\n", "0\n", "1\n", Verdict::Warning),
            ("4.1.0\n", "0\n", "1\n", Verdict::Warning),
            ("5.9.1\n", "1\n", "1\n", Verdict::Ok),
            ("5.10.0\n", "0\n", "1\n", Verdict::Warning),
            ("6.18.0\n", "0\n", "1\n", Verdict::Warning),
        ] {
            let finding = node(release, mode, conntrack, "1\n").finding("ipvs-reuse");
            assert_eq!(finding.verdict, verdict, "{release} {mode}: {}", finding.message);
        }
    }

    #[test]
    fn the_price_of_0_is_told_with_what_becomes_of_packets() {
        let silent = node("5.4.0\n", "0\n", "1\n", "0\n").finding("ipvs-reuse");
        assert!(silent.message.contains("dropped silently (expire_nodest_conn 0)"), "{}", silent.message);
        assert!(silent.remedy.contains("expire_nodest_conn=1"), "{}", silent.remedy);
        let told = node("5.4.0\n", "0\n", "1\n", "1\n").finding("ipvs-reuse");
        assert!(told.message.contains("gets a reset"), "{}", told.message);
        let leftover = node("5.15.0\n", "0\n", "1\n", "1\n").finding("ipvs-reuse");
        assert!(leftover.message.contains("leftover"), "{}", leftover.message);
    }

    #[test]
    fn a_kernel_without_the_mode_behaves_as_0() {
        let old = scene()
            .file(PATH, &table(&line(1, 0, 0)))
            .file("proc/version", "Linux version 3.16.0-4-amd64 (b@h) (gcc) #1 SMP\n")
            .lacks("proc/sys/net/ipv4/vs/conn_reuse_mode")
            .file("proc/sys/net/ipv4/vs/conntrack", "1\n")
            .file("proc/sys/net/ipv4/vs/expire_nodest_conn", "0\n")
            .finding("ipvs-reuse");
        assert_eq!(old.verdict, Verdict::Warning);
        assert!(old.message.contains("has no conn_reuse_mode"), "{}", old.message);
    }

    #[test]
    fn where_ipvs_is_not_in_use_nothing_is_wrong_and_what_is_hidden_is_unknown() {
        for id in ["ipvs-reuse", "ipvs-drain-stuck"] {
            assert_eq!(scene().lacks(PATH).finding(id).verdict, Verdict::Ok);
            let empty = table("").replace("TCP  0A600001:0050 rr  \n", "");
            assert_eq!(scene().file(PATH, &empty).finding(id).verdict, Verdict::Ok);
            assert_eq!(scene().forbids(PATH).finding(id).verdict, Verdict::Unknown);
        }
        let without_expiry = scene()
            .file(PATH, &table(""))
            .file("proc/sys/kernel/osrelease", "5.4.0\n")
            .file("proc/sys/net/ipv4/vs/conn_reuse_mode", "0\n");
        assert_eq!(without_expiry.finding("ipvs-reuse").verdict, Verdict::Warning);
        let without_mode = scene().file(PATH, &table("")).file("proc/sys/kernel/osrelease", "5.4.0\n");
        assert_eq!(without_mode.finding("ipvs-reuse").verdict, Verdict::Unknown);
    }

    #[test]
    fn in_a_namespace_of_its_own_the_host_is_looked_at() {
        let mut samples = scene().lacks(PATH).samples();
        samples.all[1].taken.namespace = NamespaceOwner::Other;
        assert!(
            reuse(&samples)
                .is_err_and(|why| why.to_string().contains("/host/proc/net/ip_vs was not captured"))
        );
        let last = &mut samples.all[1];
        last.put("host/proc/net/ip_vs", Ok(table("")));
        last.put("proc/sys/kernel/osrelease", Ok("4.19.0\n".into()));
        for (name, value) in [("conn_reuse_mode", "1\n"), ("conntrack", "1\n"), ("expire_nodest_conn", "1\n")]
        {
            last.put(format!("host/proc/sys/net/ipv4/vs/{name}"), Ok(value.into()));
        }
        assert_eq!(reuse(&samples).map(|outcome| outcome.verdict), Ok(Verdict::Failure));
    }

    /// The finding for one destination whose weight, active and inactive connections are these.
    fn drain(before: [u64; 3], after: [u64; 3], seconds: f64) -> crate::Finding {
        let text = |[weight, active, inactive]: [u64; 3]| table(&line(weight, active, inactive));
        scene().grows(PATH, &text(before), &text(after)).seconds(seconds).finding("ipvs-drain-stuck")
    }

    #[test]
    fn a_drain_that_does_not_end_is_found() {
        let stuck = drain([0, 5, 900], [0, 3, 902], 130.0);
        assert_eq!(stuck.verdict, Verdict::Failure);
        assert!(
            stuck
                .message
                .starts_with("10.0.2.15:8080 has weight 0 for TCP 10.96.0.1:80 and went from 905 to 905")
        );
        assert_eq!((stuck.number("active"), stuck.number("inactive")), (3.0, 902.0));
        assert_eq!(stuck.text("destination"), "10.0.2.15:8080");
        assert_eq!(drain([0, 0, 900], [0, 0, 901], 10.0).verdict, Verdict::Failure);
        assert_eq!(drain([0, 0, 900], [0, 0, 900], 10.0).verdict, Verdict::Warning);
        assert!(drain([0, 4, 0], [0, 4, 0], 300.0).message.contains("clients keep them open"));
    }

    #[test]
    fn a_drain_that_goes_on_is_fine_and_a_short_look_tells_nothing() {
        for (before, after) in
            [([0, 5, 900], [0, 0, 800]), ([1, 5, 900], [1, 5, 900]), ([0, 9, 9], [0, 0, 0])]
        {
            assert_eq!(drain(before, after, 10.0).verdict, Verdict::Ok);
        }
        // Its weight became 0 between the samples.
        assert_eq!(drain([1, 5, 900], [0, 5, 901], 10.0).verdict, Verdict::Ok);
        assert_eq!(drain([0, 5, 900], [0, 5, 900], 0.0).verdict, Verdict::Warning);
        let short = drain([0, 5, 900], [0, 5, 900], 1.0);
        assert_eq!(short.verdict, Verdict::Unknown);
        assert!(short.message.contains("1.0 s do not tell"), "{}", short.message);
    }
}

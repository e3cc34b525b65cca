//! Explains why two ways differ, by their phases, the CPUs and the doctor's findings, with figures.
//!
//! Must not be in here: how the explanation is shown.

use std::fmt::Write as _;

use ::doctor::{Direction, Evidence, Finding, Samples, SocketGroup, State, Translated, Value, Verdict};

use super::MeasuredTarget;
use crate::bench::format::{grouped, time};
use crate::bench::measure::{Measurement, PhasesUs};
use crate::bench::timeline::Reading;

/// The doctor's check that is shown even if its verdict is ok: the number of connections per request.
const REUSE: &str = "upstream-reuse";

/// The check that is not shown: the clients are this process, and connect as configured.
const CLIENTS: &str = "client-keepalive";

/// Share of all CPUs above which the machine counts as busy.
const BUSY_SHARE_MIN: f64 = 0.95;

/// A difference of medians below this share of a request's time is not shown.
const PHASE_SHARE_MIN: f64 = 0.05;

/// The explanations, the most important first. Findings that are ok are left out, except for [`REUSE`].
pub(super) fn explain(
    direct: &MeasuredTarget,
    via: &MeasuredTarget,
    samples: &Samples,
    readings: &[Reading],
) -> Vec<Finding> {
    let own = [
        Some(phases(direct.measurement(), via.measurement())),
        generator(direct.measurement(), via.measurement()),
        machine(direct, via, readings),
        proxy(via, samples),
    ];
    let upstream = direct.subject.address().to_string();
    let seen = ::doctor::examine(samples)
        .into_iter()
        .map(|finding| seen_at_all(with_ports(finding, samples, &upstream), samples));
    let seen =
        seen.filter(|finding| finding.id == REUSE || finding.verdict > Verdict::Ok && finding.id != CLIENTS);
    let mut all: Vec<Finding> = own.into_iter().flatten().chain(seen).collect();
    // A stable sort: equally important findings stay in order, the phases before the doctor's table.
    all.sort_by_key(|finding| std::cmp::Reverse(weight(finding)));
    all
}

/// The rank of a finding. Unknown ones come last.
fn weight(finding: &Finding) -> u8 {
    match finding.verdict {
        Verdict::Failure => 3,
        Verdict::Warning => 2,
        Verdict::Ok => 1,
        Verdict::Unknown => 0,
    }
}

/// Makes a finding about connections to upstreams unknown if the proxy's process was not examined.
fn seen_at_all(finding: Finding, samples: &Samples) -> Finding {
    if finding.id != REUSE || samples.requests.is_some() {
        return finding;
    }
    let message =
        "not checked: the proxy is not in this network namespace: --pid or --metrics says where it is";
    let (evidence, remedy) = (Evidence::default(), String::new());
    let zh = Translated::default();
    Finding { verdict: Verdict::Unknown, message: message.into(), evidence, remedy, zh, ..finding }
}

/// Adds to a finding about new connections the `TIME_WAIT`s that they leave, and how many there can be.
fn with_ports(finding: Finding, samples: &Samples, upstream: &str) -> Finding {
    if finding.id != REUSE || finding.verdict <= Verdict::Ok {
        return finding;
    }
    let remote = match finding.evidence.get("remote") {
        Some(Value::Text(remote)) => remote.as_str(),
        // If connections were too short to be seen, the upstream's address is taken from the URL of the
        // direct way.
        _ => upstream,
    };
    let sockets = samples.sockets().unwrap_or_default();
    let waiting = |is_theirs: &dyn Fn(&SocketGroup) -> bool| -> u64 {
        let groups = sockets.iter().filter(|group| group.state == State::TimeWait && is_theirs(group));
        groups.map(|group| group.count).sum()
    };
    let here = waiting(&|group| group.direction == Direction::Outgoing && group.remote == remote);
    let there = waiting(&|group| group.direction == Direction::Incoming && group.local == remote);
    let mut message = finding.message.clone();
    if here >= there {
        let _ = write!(message, "; {} TIME_WAIT towards {remote}", grouped(here as f64));
    } else {
        let _ = write!(message, "; {} TIME_WAIT at {remote}, which closes first", grouped(there as f64));
    }
    let mut evidence: Vec<_> =
        finding.evidence.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    evidence.push(("time_wait".into(), Value::from(here.max(there))));
    if let Ok(size) = samples.ports() {
        let _ = write!(message, "; the port range holds {}", grouped(size as f64));
        evidence.push(("port_range_size".into(), Value::from(size)));
    }
    Finding { message, evidence: evidence.into_iter().collect(), zh: Translated::default(), ..finding }
}

/// Explains which phase of a request takes longer.
fn phases(direct: &Measurement, via: &Measurement) -> Finding {
    let longer = via.latency_us.p50 - direct.latency_us.p50;
    let of = |phases: PhasesUs| {
        [
            ("connect", "connecting", phases.connect),
            ("tls", "the TLS handshake", phases.tls),
            ("first_byte", "the wait for the first byte", phases.first_byte),
            ("body", "the rest of the answer", phases.body),
        ]
    };
    let mut differences: Vec<_> = std::iter::zip(of(direct.phases_us), of(via.phases_us))
        .map(|((key, name, direct), (_, _, via))| (key, name, via.unwrap_or(0.0) - direct.unwrap_or(0.0)))
        .filter(|(_, _, difference)| difference.abs() >= PHASE_SHARE_MIN * via.latency_us.p50)
        .collect();
    differences.sort_by(|left, right| right.2.abs().total_cmp(&left.2.abs()));
    let parts: Vec<_> =
        differences.iter().map(|(_, name, difference)| format!("{name} {}", more(*difference))).collect();
    let parts = if parts.is_empty() { "no phase stands out".to_owned() } else { parts.join(", ") };
    let evidence =
        differences.iter().map(|(key, _, difference)| (format!("{key}_us"), Value::from(round(*difference))));
    let total = std::iter::once(("latency_p50_us".to_owned(), Value::from(round(longer))));
    finding(
        "phases",
        Verdict::Ok,
        format!("the median request takes {}: {parts}", more(longer)),
        total.chain(evidence),
    )
}

fn more(difference: f64) -> String {
    format!("{} {}", time(difference.abs()), if difference < 0.0 { "less" } else { "longer" })
}

/// Whether the load generator limits the rates; none if it does not.
fn generator(direct: &Measurement, via: &Measurement) -> Option<Finding> {
    let limited: Vec<_> = [("direct", direct), ("via", via)]
        .into_iter()
        .filter(|(_, measurement)| measurement.generator.limited)
        .map(|(name, _)| name)
        .collect();
    if limited.is_empty() {
        return None;
    }
    let message = format!(
        "the load generator was the limit ({}): the ways differ by more than is seen",
        limited.join(" and ")
    );
    let remedy = "more --threads, CPUs that nothing else uses, or a fixed --rate and a look at the latencies"
        .to_owned();
    let evidence = [("direct", direct), ("via", via)].map(|(name, measurement)| {
        (format!("{name}_cpu_seconds"), Value::from(measurement.generator.cpu_seconds))
    });
    Some(Finding { remedy, ..finding("generator-limited", Verdict::Warning, message, evidence.into_iter()) })
}

/// Whether the machine's CPUs are the limit; none if they are not.
fn machine(direct: &MeasuredTarget, via: &MeasuredTarget, readings: &[Reading]) -> Option<Finding> {
    let cpus = std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
    let used = |way: &MeasuredTarget| {
        used(&readings.iter().map(|one| (one.at, one.machine_cpu)).collect::<Vec<_>>(), &way.windows)
    };
    let (used_direct, used_via) = (used(direct)?, used(via)?);
    if used_via / seconds(&via.windows) < BUSY_SHARE_MIN * cpus {
        return None;
    }
    let each = |used: f64, way: &MeasuredTarget| used * 1e6 / way.measured.outcome.answered.max(1) as f64;
    let (direct_us, via_us) = (each(used_direct, direct), each(used_via, via));
    let message = format!(
        "all CPUs of this machine ({cpus}) are busy, so rates follow from what a request costs: {} of CPU time direct, {} via, generator, server and all else included",
        time(direct_us),
        time(via_us)
    );
    let evidence =
        [("direct_cpu_us_per_request", direct_us), ("via_cpu_us_per_request", via_us), ("cpus", cpus)];
    let evidence = evidence.map(|(name, value)| (name.to_owned(), Value::from(round(value))));
    Some(finding("machine-busy", Verdict::Warning, message, evidence.into_iter()))
}

/// The CPU time of the proxy's processes per request; none if it is not known.
fn proxy(via: &MeasuredTarget, samples: &Samples) -> Option<Finding> {
    let used = used(&cpu_of_proxy(samples)?, &via.windows)?;
    let cpus = used / seconds(&via.windows);
    let each_us = used * 1e6 / via.measured.outcome.answered.max(1) as f64;
    let message = format!(
        "the proxy's processes use {} of CPU time a request, {cpus:.2} CPUs at {} requests/s",
        time(each_us),
        grouped(via.measurement().rate)
    );
    let evidence = [("cpu_us_per_request", each_us), ("cpus", cpus)];
    let evidence =
        evidence.map(|(name, value)| (name.to_owned(), Value::from((value * 100.0).round() / 100.0)));
    Some(finding("proxy-cpu", Verdict::Ok, message, evidence.into_iter()))
}

/// CPU time of the proxy's processes in seconds, by time; `None` if they were not examined.
pub(super) fn cpu_of_proxy(samples: &Samples) -> Option<Vec<(f64, f64)>> {
    let ticks = samples.ticks().ok()?;
    let processes = ticks.cpu.iter().find(|ticks| ticks.of == "processes")?;
    let points = std::iter::zip(&processes.at_ms, &processes.used_us);
    Some(points.map(|(at, used)| (*at as f64 / 1e3, *used as f64 / 1e6)).collect())
}

/// The growth of a counter in all windows together; `None` if it was not read.
fn used(counter: &[(f64, f64)], windows: &[(f64, f64)]) -> Option<f64> {
    let at = |time: f64| {
        let after = counter.partition_point(|(at, _)| *at < time).min(counter.len().checked_sub(1)?);
        let ((from, before), (to, later)) = (counter[after.saturating_sub(1)], counter[after]);
        let share = if to > from { ((time - from) / (to - from)).clamp(0.0, 1.0) } else { 0.0 };
        Some(before + (later - before) * share)
    };
    windows.iter().map(|(begin, end)| Some(at(*end)? - at(*begin)?)).sum()
}

fn seconds(windows: &[(f64, f64)]) -> f64 {
    windows.iter().map(|(begin, end)| end - begin).sum::<f64>().max(1e-9)
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn finding(
    id: &'static str,
    verdict: Verdict,
    message: String,
    evidence: impl Iterator<Item = (String, Value)>,
) -> Finding {
    Finding {
        id,
        category: "compare",
        verdict,
        message,
        evidence: evidence.collect(),
        remedy: String::new(),
        zh: Translated::default(),
        doc: format!("docs/bench.md#{id}"),
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::compare::fixture::measurement;

    use super::*;

    #[test]
    fn the_phases_that_differ_are_told() {
        let mut direct = measurement(1000.0, 400.0, Some(20.0));
        let mut via = measurement(500.0, 900.0, Some(320.0));
        direct.phases_us.first_byte = Some(390.0);
        via.phases_us.first_byte = Some(590.0);
        (direct.phases_us.body, via.phases_us.body) = (Some(10.0), Some(9.0));
        let told = phases(&direct, &via);
        assert_eq!(
            told.message,
            "the median request takes 500 us longer: connecting 300 us longer, the wait for the first byte 200 us longer"
        );
        assert_eq!(told.evidence.get("connect_us"), Some(&Value::Number(300.0)));
        assert_eq!(told.evidence.get("body_us"), None, "a microsecond is nothing here");
        assert!(phases(&via, &direct).message.contains("500 us less: connecting 300 us less"));
        assert!(phases(&direct, &direct).message.ends_with(": no phase stands out"));
    }

    #[test]
    fn a_generator_that_was_the_limit_is_told() {
        let direct = measurement(1000.0, 400.0, None);
        let mut via = direct.clone();
        assert!(generator(&direct, &via).is_none());
        via.generator.limited = true;
        let told = generator(&direct, &via).expect("it was the limit");
        assert_eq!(told.verdict, Verdict::Warning);
        assert!(told.message.contains("(via)"), "{}", told.message);
    }

    #[test]
    fn new_connections_are_told_with_what_they_leave() {
        let group = |direction: &str, local: &str, remote: &str, count: u64| {
            serde_json::json!({
                "direction": direction, "state": "time-wait", "local": local, "remote": remote, "owner": null,
                "count": count, "queued": 0, "backlog": 0, "counted": 0, "sent_once": 0,
                "segments_received": 0, "segments_sent": 0,
            })
        };
        let samples = |groups: serde_json::Value| {
            let mut sample = ::doctor::Sample::default();
            sample.put("forebay/sockets.json", Ok(groups.to_string()));
            sample.put("proc/sys/net/ipv4/ip_local_port_range", Ok("32768\t60999\n".into()));
            Samples { all: vec![sample], ..Samples::default() }
        };
        let evidence = [("remote".to_owned(), Value::from("10.2.3.4:80"))];
        let seen = Finding {
            id: REUSE,
            ..finding(
                "",
                Verdict::Failure,
                "1.0 new upstream connection per request".into(),
                evidence.into_iter(),
            )
        };
        let ours = samples(serde_json::json!([group("outgoing", "10.0.0.1", "10.2.3.4:80", 27_900)]));
        let told = with_ports(seen.clone(), &ours, "");
        assert_eq!(
            told.message,
            "1.0 new upstream connection per request; 27,900 TIME_WAIT towards 10.2.3.4:80; the port range holds 28,232"
        );
        assert_eq!(told.evidence.get("port_range_size"), Some(&Value::Number(28_232.0)));
        let theirs = samples(serde_json::json!([group("incoming", "10.2.3.4:80", "", 500)]));
        let told = with_ports(seen.clone(), &theirs, "");
        assert!(
            told.message.contains("; 500 TIME_WAIT at 10.2.3.4:80, which closes first;"),
            "{}",
            told.message
        );
        let unseen = seen_at_all(seen.clone(), &ours);
        assert!(unseen.verdict == Verdict::Unknown && unseen.message.contains("--pid"), "{}", unseen.message);
        assert_eq!(
            seen_at_all(seen.clone(), &Samples { requests: Some(1), ..ours.clone() }).message,
            seen.message
        );
        let fine = with_ports(Finding { verdict: Verdict::Ok, ..seen }, &ours, "");
        assert_eq!(fine.message, "1.0 new upstream connection per request");
    }

    #[test]
    fn a_counter_is_read_between_readings() {
        let counter = [(0.0, 0.0), (1.0, 10.0), (2.0, 10.0), (3.0, 30.0)];
        assert_eq!(used(&counter, &[(0.5, 1.5)]), Some(5.0));
        assert_eq!(used(&counter, &[(0.0, 1.0), (2.0, 9.0)]), Some(30.0));
        assert_eq!(used(&counter, &[]), Some(0.0));
        assert_eq!(used(&[], &[(0.0, 1.0)]), None);
    }
}

//! The audit: each minute clients hold still, the books are closed, and what the proxy has counted is
//! compared with its log. At the end slopes and sums make the report.
//!
//! Must not be in here: requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use testkit::Metrics;
use tokio::runtime::Handle;

use crate::ask::{Client, Wire};
use crate::disturb::Stage;
use crate::exchange::{Request, Target};
use crate::objects::{ADMIN_PORT, LIMIT_RPS, proxy};
use crate::samples::Samples;
use crate::schedule;
use crate::shared::{Order, Shared};
use crate::windows::Kind;

/// Time between two audits.
const MINUTE: Duration = Duration::from_mins(1);
/// Longest wait for what has begun to end, and to be recorded: longer than clients wait for an answer.
const PATIENCE: Duration = Duration::from_mins(5);
/// Longest wait for a change to take effect, without the time in which the proxy waits for a CPU.
const TAKES_EFFECT: Duration = Duration::from_mins(5);
/// Longest wait for the lines of a killed process that may be on their way.
const MAY_COME: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);
/// The shares of requests between which the canary's weight is changed.
const CANARY_SHARES: [f64; 2] = [0.4, 0.6];
/// Standard deviations by which the number of a canary's requests may be beyond its shares by chance.
const DEVIATIONS: f64 = 5.0;
/// Answers of a host from which on one of them has to be a success.
const ANSWERS_MIN: u64 = 50;

/// The audit of a run.
pub(crate) struct Audit {
    stage: Arc<Stage>,
    clients: Handle,
    time: Duration,
}

impl Audit {
    pub(crate) fn new(stage: Arc<Stage>, clients: Handle, time: Duration) -> Audit {
        Audit { stage, clients, time }
    }

    /// Watches until the time is over. The samples that were taken.
    pub(crate) fn run(&self) -> Result<Samples> {
        let shared = &self.stage.shared;
        let interval = (self.time / 960).clamp(Duration::from_secs(1), Duration::from_secs(30));
        let mut samples = Samples::new(shared.report.folder())?;
        let mut audited = Instant::now();
        while shared.report.elapsed() < self.time {
            if shared.is_interrupted.load(Ordering::Relaxed) || shared.has_given_up.load(Ordering::Relaxed) {
                return Ok(samples);
            }
            thread::sleep(interval.min(self.time.saturating_sub(shared.report.elapsed())));
            self.stage.proxy.check();
            self.sample(&mut samples);
            for fault in shared.ledger.faults() {
                shared.report.fault(fault);
            }
            if audited.elapsed() >= MINUTE && shared.report.elapsed() + MINUTE / 2 < self.time {
                self.close_books();
                audited = Instant::now();
                self.tell(&samples);
                shared.order(Order::Go);
            }
        }
        self.check_effect();
        self.close_books();
        self.check_shares();
        self.tell(&samples);
        Ok(samples)
    }

    fn sample(&self, samples: &mut Samples) {
        let shared = &self.stage.shared;
        let p99 = shared.take_p99();
        let disturbs = [Kind::Kill, Kind::Restart, Kind::Descriptors, Kind::Pause, Kind::Memory];
        if disturbs.iter().any(|kind| shared.windows.is_open(*kind)) {
            return;
        }
        if let Some(pid) = self.stage.proxy.pid() {
            // A process that ends at this moment is the matter of others, and so is one that does not answer.
            let active = self.scrape(shared).ok().and_then(|metrics| active(&metrics));
            let _ = samples.take(shared.report.elapsed(), pid, active, p99);
        }
    }

    /// The line of a minute.
    fn tell(&self, samples: &Samples) {
        let shared = &self.stage.shared;
        let sums = shared.ledger.sums();
        let last = self.stage.proxy.pid().map(|pid| samples.last(pid)).unwrap_or_default();
        shared.report.say(&format!(
            "{} requests, {} settled, {} broken off, {} faults; {last}",
            sums.sent,
            sums.settled,
            sums.broken_recorded + sums.broken_unrecorded,
            shared.report.fault_count(),
        ));
    }

    /// Waits until the changes so far are in effect.
    fn check_effect(&self) {
        let shared = &self.stage.shared;
        let last = shared.effect.last();
        let is_seen = || shared.effect.seen(shared.windows.life()).is_some_and(|seen| seen >= last);
        let (begun, waited) = (Instant::now(), self.stage.proxy.wait_for_cpu());
        while !is_seen() {
            let without_cpu = self.stage.proxy.wait_for_cpu().saturating_sub(waited);
            if begun.elapsed() > TAKES_EFFECT + without_cpu {
                let took = begun.elapsed();
                shared.report.fault(format!(
                    "change {last} is not in effect after {took:.0?}, {without_cpu:.0?} of it without a CPU"
                ));
                return;
            }
            thread::sleep(LOOK);
        }
    }

    /// Has clients hold still, and compares what was sent with what was recorded and counted.
    fn close_books(&self) {
        let Stage { shared, proxy, .. } = &*self.stage;
        shared.order(Order::Hold);
        if !wait_for(PATIENCE, || shared.ledger.in_flight() == 0) {
            shared.report.fault("requests do not end");
        }
        wait_for(PATIENCE, || shared.ledger.unrecorded(&proxy.kills()) == 0);
        // Most lines that a killed process may have taken with it do not come.
        wait_for(MAY_COME, || shared.ledger.unrecorded(&[]) == 0);
        if let Err(error) = self.compare_counters() {
            shared.report.fault(format!("counters: {error:#}"));
        }
        shared.ledger.close(&proxy.kills());
        for fault in shared.ledger.faults() {
            shared.report.fault(fault);
        }
    }

    /// Compares the request counters of the process with the lines of its access log.
    fn compare_counters(&self) -> Result<()> {
        let Stage { shared, proxy: process, .. } = &*self.stage;
        let Some(pid) = process.pid() else { return Ok(()) };
        let end = Instant::now() + PATIENCE;
        loop {
            let scraped = self.scrape(shared);
            let is_disturbed = [Kind::Kill, Kind::Restart, Kind::Descriptors, Kind::Pause]
                .iter()
                .any(|kind| shared.windows.overlaps(*kind, Instant::now()));
            if is_disturbed || process.pid() != Some(pid) {
                shared.count("comparisons of counters that were disturbed");
                return Ok(());
            }
            let differences = scraped.map(|metrics| differences(&metrics, &process.lines_of(pid)));
            match differences {
                Ok(none) if none.is_empty() => {
                    shared.count("comparisons of counters");
                    return Ok(());
                }
                // A request that a client has broken off ends later at the proxy.
                _ if Instant::now() < end => thread::sleep(LOOK * 5),
                Ok(differences) => bail!("{}", differences.join("; ")),
                Err(error) => return Err(error),
            }
        }
    }

    fn scrape(&self, shared: &Shared) -> Result<Metrics> {
        let target = Target { http: proxy(ADMIN_PORT), ..shared.target.clone() };
        let request = Request {
            id: 0,
            method: Method::GET,
            host: "localhost".to_owned(),
            server_name: "localhost",
            target: "/metrics".to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
            pace: Duration::ZERO,
        };
        // A task runs in the namespace of clients, which this thread is not in.
        let asked = self.clients.spawn(async move { Client::new(Wire::Http1, &target).ask(&request).await });
        let answer =
            self.clients.block_on(asked)?.map_err(|broken| anyhow::anyhow!("no metrics: {broken:?}"))?;
        Ok(Metrics::parse(&String::from_utf8(answer.body).context("metrics are text")?))
    }

    /// Checks shares and rates, which only many requests show.
    fn check_shares(&self) {
        let shared = &self.stage.shared;
        let counts = shared.counts();
        let count = |name| counts.get(name).copied().unwrap_or(0);
        let (canary, all) = (count("canary"), count("canary") + count("stable"));
        let chance = DEVIATIONS * (0.25 * all as f64).sqrt();
        let [least, most] = CANARY_SHARES.map(|share| share * all as f64);
        if !(least - chance..=most + chance).contains(&(canary as f64)) {
            shared.report.fault(format!("the canary got {canary} of {all} requests"));
        }
        for host in unserved(&shared.ledger.statuses()) {
            shared.report.fault(format!("{host} served none of its requests"));
        }
        // Each process may begin with a burst, and counts anew.
        let processes = count("kill -9") + count("restarts by a successor") + 1;
        let seconds = shared.report.elapsed().as_secs() + 1;
        let most = u64::from(LIMIT_RPS) * (seconds + 4 * processes);
        let admitted = count("admitted by the limit");
        if admitted > most {
            shared.report.fault(format!("the limit admitted {admitted} requests in {seconds} s"));
        }
    }

    /// Writes the report, with these lines before the slopes.
    pub(crate) fn write(&self, samples: &Samples, judged: Vec<String>) -> Result<()> {
        let Stage { shared, proxy, .. } = &*self.stage;
        let slopes = samples.slopes(schedule::warm_up(self.time));
        slopes.faults.iter().for_each(|fault| shared.report.fault(fault.as_str()));
        if schedule::shows_slopes(self.time) {
            slopes.missing.iter().for_each(|missing| shared.report.fault(missing.as_str()));
        }
        let sums = shared.ledger.sums();
        let mut lines = vec![format!(
            "{} requests: {} answered with one line of the same status each; {} broken off with a line, {} \
             without; {} lines lost with killed processes; {} lines in all",
            sums.sent,
            sums.settled,
            sums.broken_recorded,
            sums.broken_unrecorded,
            sums.lost_by_kill,
            proxy.line_count(),
        )];
        let statuses = shared.ledger.statuses();
        let counts = shared.counts();
        lines.extend(statuses.iter().map(|((host, status), count)| format!("  {host} {status}: {count}")));
        lines.extend(counts.iter().map(|(name, count)| format!("  {name}: {count}")));
        lines.extend(judged);
        lines.push(format!(
            "a change was in effect after {:.1?} at most; a thread of the soak was {:.1?} late at most",
            shared.effect.slowest(),
            shared.windows.worst_lateness()
        ));
        lines.extend(slopes.lines);
        let statuses: Vec<Value> = statuses
            .iter()
            .map(|((host, status), count)| json!({"host": host, "status": status, "count": count}))
            .collect();
        let figures = json!({
            "sent": sums.sent, "settled": sums.settled, "broken_recorded": sums.broken_recorded,
            "broken_unrecorded": sums.broken_unrecorded, "lost_by_kill": sums.lost_by_kill,
            "statuses": statuses, "counts": counts, "slopes": slopes.json,
        });
        shared.report.write(figures, &lines)
    }
}

/// Hosts with many answers, none of them a success. Refusals of a limit, and of endpoints that fail, are no
/// fault by themselves, but they must not be all that comes.
fn unserved(statuses: &BTreeMap<(&'static str, u16), u64>) -> Vec<&'static str> {
    let mut hosts: BTreeMap<&'static str, [u64; 2]> = BTreeMap::new();
    for ((host, status), count) in statuses {
        let [all, served] = hosts.entry(host).or_default();
        *all += count;
        *served += if matches!(status, 101 | 200) { *count } else { 0 };
    }
    let is_unserved = |[all, served]: &[u64; 2]| *all >= ANSWERS_MIN && *served == 0;
    hosts.iter().filter(|(_, counts)| is_unserved(counts)).map(|(host, _)| *host).collect()
}

/// The pages with memory in use of the process, in KiB. None of a process that does not tell them.
fn active(metrics: &Metrics) -> Option<f64> {
    let bytes = metrics.sum("forebay_memory_active_bytes", &[]);
    (bytes > 0).then_some(bytes as f64 / 1024.0)
}

/// Ingresses whose counters differ from the lines of the access log, by status and in sum: a status that no
/// line has is in the sum. Those of hosts that come and go are left out: their series end with them.
fn differences(metrics: &Metrics, lines: &BTreeMap<(String, u16), u64>) -> Vec<String> {
    let counted = |labels: &[(&str, &str)]| metrics.sum("nginx_ingress_controller_requests", labels);
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    let mut differing = Vec::new();
    for ((ingress, status), lines) in lines.iter().filter(|((ingress, _), _)| !ingress.starts_with("extra-"))
    {
        *sums.entry(ingress).or_default() += lines;
        let counted = counted(&[("ingress", ingress), ("status", &status.to_string())]);
        if counted != *lines {
            differing.push(format!("{ingress} {status}: {counted} counted, {lines} in the log"));
        }
    }
    for (ingress, lines) in sums {
        let counted = counted(&[("ingress", ingress)]);
        if counted != lines {
            differing.push(format!("{ingress}: {counted} counted, {lines} in the log"));
        }
    }
    let dropped = metrics.sum("forebay_access_log_dropped_lines_total", &[]);
    differing.extend((dropped > 0).then(|| format!("{dropped} lines of the log were dropped")));
    differing
}

/// Waits until something holds; false if it is in vain.
fn wait_for(time: Duration, holds: impl Fn() -> bool) -> bool {
    let end = Instant::now() + time;
    while !holds() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The differences between a page of counters by Ingress and status, and these lines.
    fn differences_of(counted: &[(&str, u16, u64)], lines: &[(&str, u16, u64)]) -> Vec<String> {
        let sample = |(ingress, status, count): &(&str, u16, u64)| {
            format!(
                "nginx_ingress_controller_requests{{ingress=\"{ingress}\",status=\"{status}\"}} {count}\n"
            )
        };
        let page: String = counted.iter().map(sample).collect();
        let lines = lines.iter().map(|(ingress, status, count)| (((*ingress).to_owned(), *status), *count));
        differences(&Metrics::parse(&page), &lines.collect())
    }

    #[test]
    fn a_host_that_refuses_everything_is_found() {
        let statuses =
            [(("limit", 503), 60), (("shared", 429), 60), (("shared", 200), 1), (("moody", 502), 9)];
        assert_eq!(unserved(&statuses.into_iter().collect()), ["limit"]);
    }

    #[test]
    fn counters_and_lines_that_differ_are_found_on_both_sides() {
        let calm = [("calm", 200, 5), ("calm", 502, 1)];
        assert_eq!(differences_of(&calm, &calm), [""; 0]);
        assert_eq!(differences_of(&calm[..1], &calm).len(), 2);
        assert_eq!(differences_of(&calm, &calm[..1]), ["calm: 6 counted, 5 in the log"]);
        let moved = [("calm", 200, 4), ("calm", 502, 2)];
        assert_eq!(differences_of(&moved, &calm).len(), 2, "by status, with the right sum");
        assert_eq!(differences_of(&[], &[("extra-7", 200, 1)]), [""; 0], "its series has ended with it");
    }
}

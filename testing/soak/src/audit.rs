//! The audit: each minute clients hold still, the books are closed, and what the proxy has counted is
//! compared with its log. At the end slopes and sums make the report.
//!
//! Must not be in here: requests.

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
use crate::schedule::life_count;
use crate::shared::{Order, Shared};
use crate::windows::Kind;

/// Time between two audits.
const MINUTE: Duration = Duration::from_mins(1);
/// Longest wait for what has begun to end, and to be recorded.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(20);
/// The part of each life before slopes are looked for.
const WARM_UP_MAX: Duration = Duration::from_mins(30);
/// Canaries get half of the requests, and the weight changes by a tenth.
const CANARY_SHARES: std::ops::Range<f64> = 0.30..0.70;
/// Requests to the canary's host below which its share says nothing.
const CANARY_MIN: u64 = 100;

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
    pub(crate) fn run(&self) -> Samples {
        let shared = &self.stage.shared;
        let interval = (self.time / 960).clamp(Duration::from_secs(1), Duration::from_secs(30));
        let (mut samples, mut audited) = (Samples::default(), Instant::now());
        while shared.report.elapsed() < self.time {
            if shared.is_interrupted.load(Ordering::Relaxed) || shared.has_given_up.load(Ordering::Relaxed) {
                return samples;
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
        self.close_books();
        self.check_shares();
        self.tell(&samples);
        samples
    }

    fn sample(&self, samples: &mut Samples) {
        let shared = &self.stage.shared;
        let p99 = shared.take_p99();
        let disturbs = [Kind::Kill, Kind::Restart, Kind::Descriptors, Kind::Pause, Kind::Memory];
        if disturbs.iter().any(|kind| shared.windows.is_open(*kind)) {
            return;
        }
        if let Some(pid) = self.stage.proxy.pid() {
            // A process that ends at this moment is the matter of others.
            let _ = samples.take(shared.report.elapsed(), pid, p99);
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

    /// Has clients hold still, and compares what was sent with what was recorded and counted.
    fn close_books(&self) {
        let Stage { shared, proxy, .. } = &*self.stage;
        shared.order(Order::Hold);
        if !wait_for(PATIENCE, || shared.ledger.in_flight() == 0) {
            shared.report.fault("requests do not end");
        }
        let kills = proxy.kills();
        // Lines that a killed process has taken with it do not come.
        let minute_ago = Instant::now().checked_sub(MINUTE.min(shared.report.elapsed()));
        let has_lost = minute_ago.is_some_and(|minute_ago| shared.windows.overlaps(Kind::Kill, minute_ago));
        let patience = if has_lost { Duration::from_secs(3) } else { PATIENCE };
        wait_for(patience, || shared.ledger.unrecorded() == 0);
        if let Err(error) = self.compare_counters() {
            shared.report.fault(format!("counters: {error:#}"));
        }
        shared.ledger.close(&kills);
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
        let share = canary as f64 / all.max(1) as f64;
        if all >= CANARY_MIN && !CANARY_SHARES.contains(&share) {
            shared.report.fault(format!("the canary got {canary} of {all} requests"));
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

    /// Writes the report.
    pub(crate) fn write(&self, samples: &Samples) -> Result<()> {
        let Stage { shared, proxy, .. } = &*self.stage;
        let slopes = samples.slopes((self.time / life_count(self.time)).mul_f64(0.4).min(WARM_UP_MAX));
        slopes.faults.iter().for_each(|fault| shared.report.fault(fault.as_str()));
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

/// Ingresses whose counters differ from the lines of the access log. Those of hosts that come and go are left
/// out: their series end with them.
fn differences(metrics: &Metrics, lines: &std::collections::BTreeMap<(String, u16), u64>) -> Vec<String> {
    let lasting = lines.iter().filter(|((ingress, _), _)| !ingress.starts_with("extra-"));
    let differing = lasting.filter_map(|((ingress, status), lines)| {
        let labels = [("ingress", ingress.as_str()), ("status", &status.to_string())];
        let counted = metrics.sum("nginx_ingress_controller_requests", &labels);
        (counted != *lines).then(|| format!("{ingress} {status}: {counted} counted, {lines} in the log"))
    });
    let dropped = metrics.sum("forebay_access_log_dropped_lines_total", &[]);
    differing.chain((dropped > 0).then(|| format!("{dropped} lines of the log were dropped"))).collect()
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

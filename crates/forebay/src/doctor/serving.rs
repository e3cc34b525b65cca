//! Runs the checks within `serve`: on its own process, with its own metrics, on the admin server's thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use doctor::collect::{Collector, Scope};
use doctor::{Finding, Samples, Verdict};
use observe::Registry;

use crate::machine;

/// Time until the first findings.
const FIRST_AFTER: Duration = Duration::from_secs(1);

/// Time between two samples from then on. A sample takes 20 ms of CPU time on a machine with 70 processes,
/// and more with many sockets: less than a thousandth of a CPU.
const EVERY: Duration = Duration::from_secs(30);

/// The latest findings; empty before the second sample.
#[derive(Default)]
pub(crate) struct Findings(Mutex<Vec<Finding>>);

impl Findings {
    /// All findings as one JSON object; none before there are any.
    pub(crate) fn json(&self) -> Option<String> {
        let findings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!findings.is_empty()).then(|| super::json(&findings))
    }

    /// All findings; none before there are any.
    pub(crate) fn all(&self) -> Vec<Finding> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes samples for ever, and sets the metrics.
    pub(crate) async fn keep(&self, registry: Arc<Registry>) {
        let of_metrics = Arc::clone(&registry);
        let scope = Scope {
            pid: Some(std::process::id()),
            pods: true,
            reference: None,
            metrics: Some(Box::new(move || Ok(metrics(&of_metrics)))),
        };
        let mut collector = match Collector::new(scope) {
            Ok(collector) => collector,
            Err(error) => return tracing::warn!(%error, "the doctor cannot look"),
        };
        let mut before = collector.sample();
        let mut pause = FIRST_AFTER;
        loop {
            tokio::time::sleep(pause).await;
            pause = EVERY;
            let now = collector.sample();
            let samples = Samples { all: vec![before, now.clone()], ..Samples::default() };
            let findings = doctor::examine(&samples);
            registry
                .set_findings(findings.iter().map(|finding| (finding.id, level(finding.verdict))).collect());
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = findings;
            before = now;
        }
    }
}

fn metrics(registry: &Registry) -> String {
    let mut text = String::new();
    registry.encode(&machine::process(), &mut text);
    text
}

/// The value of the metric for a verdict.
fn level(verdict: Verdict) -> i8 {
    match verdict {
        Verdict::Unknown => -1,
        Verdict::Ok => 0,
        Verdict::Warning => 1,
        Verdict::Failure => 2,
    }
}

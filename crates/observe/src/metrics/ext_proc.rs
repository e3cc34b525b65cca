//! The metrics of external processors: requests by result, messages, and the time that requests waited.

use std::sync::Arc;
use std::time::Duration;

use super::Counter;
use super::encode::{Page, labels, sum};
use super::names;
use super::recorder::Recorder;
use super::registry::Registry;
use super::worker_cells::WorkerCells;

/// The part of an external processor in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessorResult {
    /// It had its say.
    Processed,
    /// It answered in place of the endpoint.
    Answered,
    /// It failed, and the client was told so.
    Failed,
    /// It failed, and the request went on without it.
    PassedBy,
}

impl Recorder {
    /// Records a request that went through an external processor, its messages, and the time that it waited
    /// for their answers.
    #[cold]
    pub fn ext_proc(&self, result: ProcessorResult, messages: u64, waited: Duration) {
        self.count(match result {
            ProcessorResult::Processed => Counter::ExtProcProcessed,
            ProcessorResult::Answered => Counter::ExtProcAnswered,
            ProcessorResult::Failed => Counter::ExtProcFailed,
            ProcessorResult::PassedBy => Counter::ExtProcPassedBy,
        });
        self.add(Counter::ExtProcMessages, messages);
        self.add(Counter::ExtProcMicros, u64::try_from(waited.as_micros()).unwrap_or(u64::MAX));
    }
}

impl Registry {
    pub(super) fn encode_ext_proc(workers: &[Arc<WorkerCells>], page: &mut Page<'_>) {
        page.family(&names::EXT_PROC_REQUESTS);
        for (result, counter) in [
            ("processed", Counter::ExtProcProcessed),
            ("answered", Counter::ExtProcAnswered),
            ("failed", Counter::ExtProcFailed),
            ("passed_by", Counter::ExtProcPassedBy),
        ] {
            let count = sum(workers, |worker| worker.counter(counter));
            page.sample(names::EXT_PROC_REQUESTS.name, &labels(&[("result", result)]), count);
        }
        page.family(&names::EXT_PROC_MESSAGES);
        let messages = sum(workers, |worker| worker.counter(Counter::ExtProcMessages));
        page.sample(names::EXT_PROC_MESSAGES.name, "", messages);
        page.family(&names::EXT_PROC_SECONDS);
        let micros = sum(workers, |worker| worker.counter(Counter::ExtProcMicros));
        page.sample(names::EXT_PROC_SECONDS.name, "", micros as f64 / 1e6);
    }
}

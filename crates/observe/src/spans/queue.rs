//! The queue between the workers and the thread that sends spans.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Span;
use crate::metrics::Registry;

/// The sink for workers' spans. It never waits, and is bounded.
#[derive(Clone, Debug)]
pub struct SpanSink(Arc<Shared>);

/// The receiving end of the queue.
#[derive(Debug)]
pub(super) struct Queue {
    spans: UnboundedReceiver<Span>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    spans: UnboundedSender<Span>,
    waiting: AtomicUsize,
    /// The most waiting spans; 0 if nothing is sent.
    max: AtomicUsize,
    /// The most spans in a batch.
    batch_max: AtomicUsize,
    /// Signals that the first span waits, or that a batch is full.
    due: Notify,
    registry: Arc<Registry>,
}

/// Creates a queue without room; [`SpanSink::resize`] adds room.
pub(super) fn queue(registry: &Arc<Registry>) -> (SpanSink, Queue) {
    let (sender, spans) = unbounded_channel();
    let shared = Arc::new(Shared {
        spans: sender,
        waiting: AtomicUsize::new(0),
        max: AtomicUsize::new(0),
        batch_max: AtomicUsize::new(1),
        due: Notify::new(),
        registry: Arc::clone(registry),
    });
    (SpanSink(Arc::clone(&shared)), Queue { spans, shared })
}

// === impl SpanSink ===

impl SpanSink {
    /// Whether spans are sent at all.
    pub fn is_open(&self) -> bool {
        self.0.max.load(Ordering::Relaxed) > 0
    }

    /// Puts a span into the queue, or drops and counts it if the queue is full.
    pub fn put(&self, span: Span) {
        let Shared { spans, waiting, max, batch_max, due, registry } = &*self.0;
        let before = waiting.fetch_add(1, Ordering::Relaxed);
        if before >= max.load(Ordering::Relaxed) || spans.send(span).is_err() {
            waiting.fetch_sub(1, Ordering::Relaxed);
            registry.spans_dropped(1);
        } else if before == 0 || before + 1 == batch_max.load(Ordering::Relaxed) {
            due.notify_one();
        }
    }

    /// Sets the most waiting spans, and the most spans in a batch.
    pub(super) fn resize(&self, max: usize, batch_max: usize) {
        self.0.max.store(max, Ordering::Relaxed);
        self.0.batch_max.store(batch_max, Ordering::Relaxed);
    }
}

// === impl Queue ===

impl Queue {
    /// Waits until a batch is full, or the first span has waited for this long. Returns the number of waiting
    /// spans.
    pub(super) async fn due(&self, delay: Duration) -> usize {
        while self.len() == 0 {
            self.shared.due.notified().await;
        }
        let full = async {
            while self.len() < self.shared.batch_max.load(Ordering::Relaxed) {
                self.shared.due.notified().await;
            }
        };
        // In both cases spans are waiting.
        let _ = tokio::time::timeout(delay, full).await;
        self.len()
    }

    /// Takes a batch, or the waiting spans if they are fewer.
    pub(super) fn take(&mut self) -> Vec<Span> {
        let batch_max = self.shared.batch_max.load(Ordering::Relaxed);
        let spans = &mut self.spans;
        let batch: Vec<_> = std::iter::from_fn(|| spans.try_recv().ok()).take(batch_max).collect();
        self.shared.waiting.fetch_sub(batch.len(), Ordering::Relaxed);
        batch
    }

    /// Counts dropped spans.
    pub(super) fn note_dropped(&self, spans: usize) {
        self.shared.registry.spans_dropped(spans as u64);
    }

    /// Counts spans that a collector has accepted.
    pub(super) fn note_sent(&self, spans: usize) {
        self.shared.registry.spans_sent(spans as u64);
    }

    fn len(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::runtime::Builder;

    use super::*;
    use crate::{MetricsOptions, Process};

    fn span() -> Span {
        Span {
            name: Vec::new(),
            trace_id: [1; 16],
            span_id: [2; 8],
            parent: None,
            flags: 1,
            trace_state: Vec::new(),
            begin: Duration::ZERO,
            end: Duration::ZERO,
            method: Vec::new(),
            target: Vec::new(),
            host: Vec::new(),
            user_agent: None,
            scheme: "http",
            flavor: "1.1",
            labels: None,
            status: 200,
            client: IpAddr::V4(Ipv4Addr::LOCALHOST),
            client_port: 1,
            server_port: 2,
        }
    }

    fn dropped(registry: &Registry) -> u64 {
        let mut page = String::new();
        registry.encode(&Process::default(), &mut page);
        let line = page.lines().find_map(|line| line.strip_prefix("forebay_trace_spans_dropped_total "));
        line.unwrap().parse().unwrap()
    }

    #[test]
    fn what_has_no_room_is_dropped_and_counted() {
        let registry = Registry::new(MetricsOptions::default());
        let (sink, mut queue) = queue(&registry);
        assert!(!sink.is_open());
        sink.put(span());
        assert_eq!(dropped(&registry), 1);
        sink.resize(3, 2);
        (0..5).for_each(|_| sink.put(span()));
        assert!(sink.is_open());
        assert_eq!(dropped(&registry), 3);
        assert_eq!((queue.take().len(), queue.take().len(), queue.take().len()), (2, 1, 0));
        sink.put(span());
        assert_eq!((dropped(&registry), queue.take().len()), (3, 1));
        drop(queue);
        sink.put(span());
        assert_eq!(dropped(&registry), 4, "nobody takes it");
    }

    #[test]
    fn a_batch_is_due_when_it_is_full_or_its_first_span_has_waited() {
        let (sink, queue) = queue(&Registry::new(MetricsOptions::default()));
        sink.resize(10, 2);
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let begin = tokio::time::Instant::now();
            let putting = sink.clone();
            let put = async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                putting.put(span());
            };
            let (due, ()) = tokio::join!(queue.due(Duration::from_secs(5)), put);
            assert_eq!((due, begin.elapsed()), (1, Duration::from_secs(6)));
            sink.put(span());
            let due = queue.due(Duration::from_secs(5)).await;
            assert_eq!((due, begin.elapsed()), (2, Duration::from_secs(6)));
        });
    }
}

//! The thread that sends spans (OTLP over gRPC).

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use model::SpanExport;
use opentelemetry::InstrumentationScope;
use opentelemetry_otlp::{SpanExporter as OtlpExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::queue::{Queue, SpanSink, queue};
use super::{Span, otlp};
use crate::limits::{SPAN_EXPORT_TIMEOUT, SPAN_FLUSH_TIMEOUT};
use crate::metrics::Registry;

/// Sends spans from a thread of its own, which starts with the first collector. The thread ends with this
/// value: it sends the waiting spans first, as long as that takes no more than [`SPAN_FLUSH_TIMEOUT`].
#[derive(Debug)]
pub struct SpanExporter {
    sink: SpanSink,
    orders: watch::Sender<Order>,
    sender: Mutex<Sender>,
}

#[derive(Clone, Debug, Default)]
struct Order {
    to: Option<Arc<SpanExport>>,
    /// No further spans will come.
    is_last: bool,
}

#[derive(Debug)]
enum Sender {
    Due(Queue),
    Runs(JoinHandle<()>),
    Failed,
}

/// A collector that receives spans.
struct Collector {
    export: Arc<SpanExport>,
    /// The client; none if the collector's address cannot be used.
    client: Option<OtlpExporter>,
    scope: InstrumentationScope,
    /// The collector did not accept the last batch.
    is_failing: bool,
}

// === impl SpanExporter ===

impl SpanExporter {
    /// An exporter that sends nothing yet.
    pub fn new(registry: &Arc<Registry>) -> Self {
        let (sink, queue) = queue(registry);
        Self { sink, orders: watch::Sender::default(), sender: Mutex::new(Sender::Due(queue)) }
    }

    /// The sink in which workers put spans.
    pub fn sink(&self) -> SpanSink {
        self.sink.clone()
    }

    /// Sends all further spans to this collector, or to none. A batch that is being sent is not cancelled.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started; spans are not collected then.
    pub fn configure(&self, to: Option<&Arc<SpanExport>>) -> io::Result<()> {
        let started = to.map_or(Ok(()), |_| self.start());
        let room = to.filter(|_| started.is_ok()).map(|to| (to.queue_max, to.batch_max.min(to.queue_max)));
        let (max, batch_max) = room.unwrap_or((0, 1));
        self.sink.resize(max, batch_max);
        self.orders.send_if_modified(|order| {
            let is_other = order.to.as_ref() != to;
            order.to = to.cloned();
            is_other
        });
        started
    }

    fn start(&self) -> io::Result<()> {
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *sender, Sender::Failed) {
            Sender::Due(queue) => {
                let runtime = Builder::new_current_thread().enable_all().build()?;
                let orders = self.orders.subscribe();
                let run = move || run(runtime, queue, orders);
                *sender = Sender::Runs(thread::Builder::new().name("spans".to_owned()).spawn(run)?);
            }
            other => *sender = other,
        }
        Ok(())
    }
}

impl Drop for SpanExporter {
    fn drop(&mut self) {
        self.orders.send_modify(|order| order.is_last = true);
        let sender = self.sender.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Sender::Runs(thread) = std::mem::replace(sender, Sender::Failed) {
            // The panic's message has been logged, and nothing else depends on the thread.
            let _ = thread.join();
        }
    }
}

/// The nice value of the thread (`nice(2)`), for which no request waits; that of the workers is 0.
const NICENESS: i32 = 10;

fn run(runtime: Runtime, queue: Queue, orders: watch::Receiver<Order>) {
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "a thread keeps its priority");
    }
    let mut ends = orders.clone();
    let cut = async {
        // An error means that the exporter is gone, which has the same effect.
        let _ = ends.wait_for(|order| order.is_last).await;
        sleep(SPAN_FLUSH_TIMEOUT).await;
    };
    runtime.block_on(async {
        tokio::select! {
            () = send(queue, orders) => {}
            () = cut => {}
        }
    });
    // The shutdown does not wait for a pending look-up of a name.
    runtime.shutdown_background();
}

/// Sends batches until no further spans will come.
async fn send(mut queue: Queue, mut orders: watch::Receiver<Order>) {
    let mut collector = None;
    // The number of spans to send in the present turn.
    let mut turn = 0;
    loop {
        let Order { to, is_last } = orders.borrow_and_update().clone();
        collector = Collector::follow(collector, to);
        if turn == 0 && !is_last {
            let delay = collector.as_ref().map(|collector| collector.export.delay);
            tokio::select! {
                changed = orders.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                due = queue.due(delay.unwrap_or_default()) => turn = due,
            }
        }
        let batch = queue.take();
        if batch.is_empty() && is_last {
            return;
        }
        turn = if batch.is_empty() { 0 } else { turn.saturating_sub(batch.len()) };
        let count = batch.len();
        let is_sent = match &mut collector {
            Some(collector) if count > 0 => collector.send(batch).await,
            _ => false,
        };
        if is_sent { queue.note_sent(count) } else { queue.note_dropped(count) }
    }
}

// === impl Collector ===

impl Collector {
    /// The collector to send to: the present one as long as it is the same.
    fn follow(present: Option<Self>, to: Option<Arc<SpanExport>>) -> Option<Self> {
        let to = to?;
        match present {
            Some(present) if present.export == to => Some(present),
            _ => Some(Self::new(to)),
        }
    }

    fn new(export: Arc<SpanExport>) -> Self {
        let client = OtlpExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint(&export))
            .with_timeout(SPAN_EXPORT_TIMEOUT)
            .build()
            .inspect_err(|error| tracing::error!(host = export.host, %error, "no collector of spans"));
        let mut client = client.ok();
        if let Some(client) = &mut client {
            client.set_resource(&Resource::builder().with_service_name(export.service.clone()).build());
        }
        Self { export, client, scope: otlp::scope(), is_failing: false }
    }

    /// Sends a batch; returns false if it is not accepted in time.
    async fn send(&mut self, batch: Vec<Span>) -> bool {
        let Some(client) = &self.client else { return false };
        let batch = batch.into_iter().map(|span| otlp::span_data(span, &self.scope)).collect();
        let sent = timeout(SPAN_EXPORT_TIMEOUT, client.export(batch)).await;
        let failure = match sent {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer in time".to_owned()),
        };
        self.note(failure.as_deref());
        failure.is_none()
    }

    /// Logs the beginning of a collector's failure, and its recovery.
    fn note(&mut self, failure: Option<&str>) {
        let (host, port) = (&self.export.host, self.export.port);
        match failure {
            Some(error) if !self.is_failing => tracing::warn!(host, port, error, "spans cannot be sent"),
            None if self.is_failing => tracing::info!(host, port, "spans are sent again"),
            _ => {}
        }
        self.is_failing = failure.is_some();
    }
}

fn endpoint(export: &SpanExport) -> String {
    let SpanExport { host, port, .. } = export;
    let is_bare_ipv6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    if is_bare_ipv6 { format!("http://[{host}]:{port}") } else { format!("http://{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_have_names_or_addresses() {
        let of = |host: &str| endpoint(&SpanExport { host: host.to_owned(), ..SpanExport::default() });
        assert_eq!(of("collector.otel.svc"), "http://collector.otel.svc:4317");
        assert_eq!(
            (of("::1"), of("[::1]")),
            ("http://[::1]:4317".to_owned(), "http://[::1]:4317".to_owned())
        );
    }
}

//! Carries the lines of the access logs from the workers to the outputs: one for requests, and one for TCP
//! and UDP.
//!
//! A worker collects lines in its own buffer and passes the full buffer to the writer thread, which returns
//! it empty. A slow output fills the queue between them; then lines are dropped and counted, and no worker
//! ever waits.

use std::fmt;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use crate::limits::{LOG_BUFFER_BYTES, LOG_BUFFERS_WAITING_MAX};
use crate::metrics::{Counter, Recorder, Registry, WorkerCells};

/// The thread that writes the access log. It ends when this value and all its sinks have been dropped and
/// everything has been written.
#[derive(Debug)]
pub struct Writer {
    queue: SyncSender<Full>,
    outputs: Arc<Mutex<Outputs>>,
    thread: JoinHandle<()>,
    /// There is an audit log.
    audits: bool,
}

/// A worker's ends of all logs.
#[derive(Debug)]
pub struct Sinks {
    /// The log of requests.
    pub requests: Sink,
    /// The log of TCP connections and UDP sessions.
    pub streams: Sink,
    /// The audit log of firewalls; none if there is to be none.
    pub audit: Option<Sink>,
}

/// The log that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The log of requests.
    Requests,
    /// The log of TCP connections and UDP sessions.
    Streams,
    /// The audit log of firewalls.
    Audit,
}

/// An output, which gets whole lines at a time.
pub type Output = Box<dyn Write + Send>;

struct Outputs {
    requests: Output,
    /// The output of streams; none for the output of requests.
    streams: Option<Output>,
    /// The output of the audit log; none for the output of requests.
    audit: Option<Output>,
}

impl Outputs {
    fn of(&mut self, kind: Kind) -> &mut Output {
        let own = match kind {
            Kind::Requests => None,
            Kind::Streams => self.streams.as_mut(),
            Kind::Audit => self.audit.as_mut(),
        };
        own.unwrap_or(&mut self.requests)
    }
}

impl fmt::Debug for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outputs").finish_non_exhaustive()
    }
}

/// The end of a worker, which adds lines.
#[derive(Debug)]
pub struct Sink {
    lines: Lines,
    kind: Kind,
    queue: SyncSender<Full>,
    /// Empty buffers that the writer returns; the sender goes along with each full buffer.
    empties: Receiver<Vec<u8>>,
    way_back: SyncSender<Vec<u8>>,
    cells: Arc<WorkerCells>,
}

#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    count: u64,
}

#[derive(Debug)]
struct Full {
    lines: Lines,
    kind: Kind,
    way_back: SyncSender<Vec<u8>>,
}

// === impl Writer ===

impl Writer {
    /// Starts the thread, which writes all lines to `out` until they are [redirected](Self::redirect). Lines
    /// that cannot be written are counted as dropped.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn spawn(out: impl Write + Send + 'static, registry: &Arc<Registry>) -> io::Result<Self> {
        let (queue, full) = sync_channel(LOG_BUFFERS_WAITING_MAX);
        let registry = Arc::clone(registry);
        let outputs = Arc::new(Mutex::new(Outputs { requests: Box::new(out), streams: None, audit: None }));
        let shared = Arc::clone(&outputs);
        let write = move || write_all(&shared, &full, &registry);
        let thread = thread::Builder::new().name("log".to_owned()).spawn(write)?;
        Ok(Self { queue, outputs, thread, audits: true })
    }

    /// The same without an audit log, for sinks that are made from now on.
    #[must_use]
    pub fn without_audit(self) -> Self {
        Self { audits: false, ..self }
    }

    /// Redirects the lines: those of requests, and those of TCP and UDP if they have another output. It waits
    /// for a running write. Lines that workers have collected and not yet handed over go to the new output.
    pub fn redirect(&self, requests: Output, streams: Option<Output>) {
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        outputs.requests = requests;
        outputs.streams = streams;
    }

    /// Gives the audit log an output of its own.
    pub fn redirect_audit(&self, audit: Output) {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner).audit = Some(audit);
    }

    /// The sinks for the worker of this recorder.
    pub fn sinks(&self, recorder: &Recorder) -> Sinks {
        Sinks {
            requests: self.sink(Kind::Requests, recorder),
            streams: self.sink(Kind::Streams, recorder),
            audit: self.audits.then(|| self.sink(Kind::Audit, recorder)),
        }
    }

    /// A sink for the worker of this recorder.
    pub fn sink(&self, kind: Kind, recorder: &Recorder) -> Sink {
        let (way_back, empties) = sync_channel(LOG_BUFFERS_WAITING_MAX);
        Sink {
            lines: Lines::default(),
            kind,
            queue: self.queue.clone(),
            empties,
            way_back,
            cells: Arc::clone(recorder.cells()),
        }
    }

    /// Waits until all sinks have been dropped and everything has been written.
    pub fn join(self) {
        drop(self.queue);
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

fn write_all(outputs: &Mutex<Outputs>, full: &Receiver<Full>, registry: &Registry) {
    for Full { mut lines, kind, way_back } in full {
        let mut outputs = outputs.lock().unwrap_or_else(PoisonError::into_inner);
        let out = outputs.of(kind);
        if out.write_all(&lines.bytes).and_then(|()| out.flush()).is_err() {
            registry.log_lines_lost(lines.count);
        }
        lines.bytes.clear();
        // The worker may have ended, or have enough buffers.
        _ = way_back.try_send(lines.bytes);
    }
}

// === impl Sink ===

impl Sink {
    /// Adds the line that `write` appends.
    pub fn line(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.lines.bytes);
        self.lines.count += 1;
        if self.lines.bytes.len() >= LOG_BUFFER_BYTES {
            self.flush();
        }
    }

    /// Passes the lines to the writer, or drops and counts them if too many buffers wait. Never blocks.
    pub fn flush(&mut self) {
        if self.lines.count == 0 {
            return;
        }
        let bytes = self.empties.try_recv().unwrap_or_default();
        let lines = std::mem::replace(&mut self.lines, Lines { bytes, count: 0 });
        let full = Full { lines, kind: self.kind, way_back: self.way_back.clone() };
        if let Err(TrySendError::Full(full) | TrySendError::Disconnected(full)) = self.queue.try_send(full) {
            self.cells.counter(Counter::LogLinesDropped).add(full.lines.count);
            self.lines.bytes = full.lines.bytes;
            self.lines.bytes.clear();
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::{MetricsOptions, Process};

    /// A writer that reports the beginning of a write, and completes it when the gate gets a message or is
    /// dropped.
    struct Gated {
        begun: std::sync::mpsc::Sender<()>,
        gate: Receiver<()>,
        written: Arc<Mutex<String>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            _ = self.begun.send(());
            _ = self.gate.recv();
            self.written.lock().unwrap().push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn put(sink: &mut Sink, line: usize) {
        sink.line(|out| writeln!(out, "{line}").unwrap());
    }

    fn dropped(registry: &Registry) -> String {
        let mut page = String::new();
        registry.encode(&Process::default(), &mut page);
        let line = page.lines().find(|line| line.starts_with("forebay_access_log_dropped_lines_total"));
        line.unwrap().rsplit_once(' ').unwrap().1.to_owned()
    }

    #[test]
    fn a_slow_output_costs_lines_and_no_time_and_the_rest_is_written_in_the_end() {
        let registry = Registry::new(MetricsOptions::default());
        let recorder = registry.recorder();
        let written = Arc::<Mutex<String>>::default();
        let ((begun, is_begun), (open, gate)) = (channel(), channel());
        let writer = Writer::spawn(Gated { begun, gate, written: Arc::clone(&written) }, &registry).unwrap();
        let mut sink = writer.sink(Kind::Requests, &recorder);

        put(&mut sink, 0);
        sink.flush();
        is_begun.recv().unwrap();
        for line in 1..=LOG_BUFFERS_WAITING_MAX {
            put(&mut sink, line);
            sink.flush();
        }
        assert_eq!(dropped(&registry), "0");
        put(&mut sink, 1000);
        put(&mut sink, 1001);
        sink.flush();
        assert_eq!(dropped(&registry), "2");

        drop(open);
        drop(sink);
        writer.join();
        let written = written.lock().unwrap();
        assert!(written.lines().eq((0..=LOG_BUFFERS_WAITING_MAX).map(|line| line.to_string())));
        assert_eq!(dropped(&registry), "2");
    }

    #[test]
    fn a_full_buffer_is_handed_over_and_comes_back_empty() {
        let registry = Registry::new(MetricsOptions::default());
        let recorder = registry.recorder();
        let ((begun, is_begun), (open, gate)) = (channel(), channel());
        let written = Arc::<Mutex<String>>::default();
        let writer = Writer::spawn(Gated { begun, gate, written: Arc::clone(&written) }, &registry).unwrap();
        let mut sink = writer.sink(Kind::Requests, &recorder);
        sink.line(|out| out.resize(LOG_BUFFER_BYTES - 1, b'a'));
        assert!(is_begun.try_recv().is_err());
        sink.line(|out| out.push(b'b'));
        is_begun.recv().unwrap();
        open.send(()).unwrap();
        let empty = sink.empties.recv().unwrap();
        assert!(empty.is_empty() && empty.capacity() >= LOG_BUFFER_BYTES);
        drop((open, sink));
        writer.join();
        assert_eq!(written.lock().unwrap().len(), LOG_BUFFER_BYTES);
    }

    #[test]
    fn lines_that_the_output_refuses_are_counted() {
        let registry = Registry::new(MetricsOptions::default());
        let recorder = registry.recorder();
        let writer = Writer::spawn(Broken, &registry).unwrap();
        let mut sink = writer.sink(Kind::Requests, &recorder);
        (0..3).for_each(|line| put(&mut sink, line));
        drop(sink);
        writer.join();
        assert_eq!(dropped(&registry), "3");
    }

    #[test]
    fn each_log_has_its_output_and_may_get_another() {
        let registry = Registry::new(MetricsOptions::default());
        let recorder = registry.recorder();
        let texts: [Arc<Mutex<String>>; 3] = Default::default();
        let output = |at: usize| {
            let (begun, gate) = (channel().0, channel().1);
            Gated { begun, gate, written: Arc::clone(&texts[at]) }
        };
        let writer = Writer::spawn(output(0), &registry).unwrap();
        let mut sinks = [Kind::Requests, Kind::Streams].map(|kind| writer.sink(kind, &recorder));
        let mut put_both = |line: usize| {
            for sink in &mut sinks {
                put(sink, line);
                sink.flush();
            }
        };
        put_both(0);
        // Lines that were handed over are written before the outputs change.
        while texts[0].lock().unwrap().lines().count() < 2 {
            std::thread::yield_now();
        }
        writer.redirect(Box::new(output(1)), Some(Box::new(output(2))));
        put_both(1);
        drop(sinks);
        writer.join();
        assert_eq!(texts.map(|text| text.lock().unwrap().clone()), ["0\n0\n", "1\n", "1\n"]);
    }
}

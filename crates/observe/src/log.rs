//! Takes the lines of the access log from the workers to the output.
//!
//! A worker collects lines in its own buffer and passes the full buffer to the writer thread, which returns it empty. A slow output
//! fills the queue between them; then lines are dropped and counted, and no worker ever waits.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use crate::limits::{LOG_BUFFER_BYTES, LOG_BUFFERS_WAITING_MAX};
use crate::metrics::{Counter, Recorder, Registry, WorkerCells};

/// The thread that writes the access log. It ends when this value and all its sinks have been dropped and everything has been
/// written.
#[derive(Debug)]
pub struct Writer {
    queue: SyncSender<Full>,
    thread: JoinHandle<()>,
}

/// The end of a worker, which adds lines.
#[derive(Debug)]
pub struct Sink {
    lines: Lines,
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
    way_back: SyncSender<Vec<u8>>,
}

// === impl Writer ===

impl Writer {
    /// Starts the thread. Lines that cannot be written to `out` are counted as dropped.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn spawn(out: impl Write + Send + 'static, registry: &Arc<Registry>) -> io::Result<Self> {
        let (queue, full) = sync_channel(LOG_BUFFERS_WAITING_MAX);
        let registry = Arc::clone(registry);
        let thread =
            thread::Builder::new().name("log".to_owned()).spawn(move || write_all(out, &full, &registry))?;
        Ok(Self { queue, thread })
    }

    /// A sink for the worker of this recorder.
    pub fn sink(&self, recorder: &Recorder) -> Sink {
        let (way_back, empties) = sync_channel(LOG_BUFFERS_WAITING_MAX);
        Sink {
            lines: Lines::default(),
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

fn write_all(mut out: impl Write, full: &Receiver<Full>, registry: &Registry) {
    for Full { mut lines, way_back } in full {
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
        let full = Full { lines, way_back: self.way_back.clone() };
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

    /// A writer that reports when a write begins, and completes it when the gate gets a message or is dropped.
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
        let mut sink = writer.sink(&recorder);

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
        let mut sink = writer.sink(&recorder);
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
        let mut sink = writer.sink(&recorder);
        (0..3).for_each(|line| put(&mut sink, line));
        drop(sink);
        writer.join();
        assert_eq!(dropped(&registry), "3");
    }
}

//! The lines that a process writes, as they come.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::PATIENCE;

/// One of a process' outputs, read by a thread of its own until it ends.
#[derive(Debug)]
pub(crate) struct Output {
    lines: Arc<Lines>,
    reading: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Lines {
    so_far: Mutex<SoFar>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SoFar {
    lines: Vec<String>,
    ended: bool,
}

impl Output {
    pub(crate) fn read(from: impl Read + Send + 'static) -> Self {
        let lines = Arc::new(Lines::default());
        let for_thread = Arc::clone(&lines);
        let reading = Some(std::thread::spawn(move || for_thread.collect(from)));
        Self { lines, reading }
    }

    /// Waits for the first line that is meant. `None` if the output ends without it.
    pub(crate) fn find(&self, is_meant: impl Fn(&str) -> bool) -> Option<String> {
        let end = Instant::now() + PATIENCE;
        let mut so_far = self.lines.so_far.lock().expect("no thread panics with it");
        loop {
            if let Some(line) = so_far.lines.iter().find(|line| is_meant(line)) {
                return Some(line.clone());
            }
            let left = end.saturating_duration_since(Instant::now());
            if so_far.ended || left.is_zero() {
                return None;
            }
            so_far = self.lines.changed.wait_timeout(so_far, left).expect("no thread panics with it").0;
        }
    }

    /// Waits for the output's end. False if it does not come.
    pub(crate) fn ends(&self) -> bool {
        let lines = self.lines.so_far.lock().expect("no thread panics with it");
        let waited = self.lines.changed.wait_timeout_while(lines, PATIENCE, |lines| !lines.ended);
        !waited.expect("no thread panics with it").1.timed_out()
    }

    /// The lines so far.
    pub(crate) fn so_far(&self) -> Vec<String> {
        self.lines.so_far.lock().expect("no thread panics with it").lines.clone()
    }

    /// All lines, when the process has ended.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        if let Some(thread) = self.reading.take() {
            thread.join().expect("reading lines does not panic");
        }
        self.so_far()
    }
}

impl Lines {
    fn collect(&self, from: impl Read) {
        let mut reader = BufReader::new(from);
        let mut line = Vec::new();
        while let Ok(1..) = reader.read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
            self.so_far.lock().expect("no thread panics with it").lines.push(text);
            self.changed.notify_all();
            line.clear();
        }
        self.so_far.lock().expect("no thread panics with it").ended = true;
        self.changed.notify_all();
    }
}

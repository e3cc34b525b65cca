//! A program in a terminal: keys are typed, and the screen can be read.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::PATIENCE;

/// A program that runs in a terminal.
pub struct Terminal {
    child: Child,
    ours: File,
    /// The program's end. It stays open, so that the terminal's modes can be read after the program has
    /// ended.
    theirs: File,
    screen: Arc<Screen>,
    reading: Option<JoinHandle<()>>,
}

struct Screen {
    parser: Mutex<vt100::Parser>,
    changed: Condvar,
}

impl Terminal {
    /// Starts a program in a terminal of this size. Its standard error is the terminal too.
    pub fn start(command: &mut Command, columns: u16, rows: u16) -> Self {
        let ours =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&ours).expect("its rights");
        unlockpt(&ours).expect("it is unlocked");
        let name = ptsname(&ours, Vec::new()).expect("its name");
        let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty());
        let (ours, theirs) = (File::from(ours), File::from(theirs.expect("its other end")));
        tcsetwinsize(&ours, size(columns, rows)).expect("its size");
        let end = || Stdio::from(theirs.try_clone().expect("a descriptor"));
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("it runs");
        // A command keeps its descriptors, and with them this end of the terminal.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let parser = Mutex::new(vt100::Parser::new(cells(rows), cells(columns), 0));
        let screen = Arc::new(Screen { parser, changed: Condvar::new() });
        let (from, to) = (ours.try_clone().expect("a descriptor"), Arc::clone(&screen));
        let reading = Some(std::thread::spawn(move || to.follow(from)));
        Self { child, ours, theirs, screen, reading }
    }

    /// Types these keys.
    pub fn types(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).expect("keys are taken");
    }

    /// Gives the terminal another size, and signals the program.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        let (high, wide) = (cells(rows), cells(columns));
        self.screen.parser.lock().expect("no thread panics with it").screen_mut().set_size(high, wide);
        tcsetwinsize(&self.ours, size(columns, rows)).expect("its size");
        // The terminal has no foreground process that the kernel would signal.
        self.signal(Signal::WINCH);
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Waits until the text on the screen is as expected.
    pub fn await_screen(&self, what: &str, is_meant: impl Fn(&str) -> bool) {
        self.await_that(what, |screen| is_meant(&screen.contents()));
    }

    /// Waits until the screen is again as it was before the program took it over, and checks that lines are
    /// edited again.
    pub fn await_given_back(&self) {
        self.await_that("the screen as it was", |screen| !screen.alternate_screen() && !screen.hide_cursor());
        assert!(self.edits_lines(), "the terminal is still raw");
    }

    fn await_that(&self, what: &str, holds: impl Fn(&vt100::Screen) -> bool) {
        let end = Instant::now() + PATIENCE;
        let mut parser = self.screen.parser.lock().expect("no thread panics with it");
        while !holds(parser.screen()) {
            let left = end.saturating_duration_since(Instant::now());
            let text = parser.screen().contents();
            if left.is_zero() {
                drop(parser);
                panic!("waited in vain for {what}; the screen is\n{text}");
            }
            parser = self.screen.changed.wait_timeout(parser, left).expect("no thread panics with it").0;
        }
    }

    /// The text on the screen.
    pub fn text(&self) -> String {
        self.screen.parser.lock().expect("no thread panics with it").screen().contents()
    }

    /// Whether the program uses the alternate screen.
    pub fn is_taken_over(&self) -> bool {
        self.screen.parser.lock().expect("no thread panics with it").screen().alternate_screen()
    }

    /// Whether the terminal edits lines, as it does until a program sets it to raw mode.
    pub fn edits_lines(&self) -> bool {
        tcgetattr(&self.theirs)
            .expect("its modes")
            .local_modes
            .contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Waits for the program's end.
    pub fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status;
            }
            assert!(Instant::now() < end, "it does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // With the last descriptor of its other end, reading ends.
        let nothing = File::open("/dev/null").expect("nothing");
        drop(std::mem::replace(&mut self.theirs, nothing));
        if let Some(reading) = self.reading.take() {
            let _ = reading.join();
        }
    }
}

impl Screen {
    fn follow(&self, mut from: File) {
        let mut bytes = [0; 4096];
        // At its end, reading fails (EIO).
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            self.parser.lock().expect("no thread panics with it").process(&bytes[..length]);
            self.changed.notify_all();
        }
    }
}

fn cells(number: u16) -> NonZero<u16> {
    NonZero::new(number).expect("a screen has cells")
}

const fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

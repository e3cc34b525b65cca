//! A server with a fixed service time and so many requests at a time, which can be told to become slow, to
//! fail and to be well again.
//!
//! Requests that were read are processed even if the client has gone, as in most servers: that is what makes
//! an overload last. Must not be in here: figures.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use lab::Quota;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::site::Site;
use crate::ask::get;
use crate::child::{Program, end_with_parent, free_address, this_program};

/// Paths that begin so are for whoever measures, and cost nothing.
const TOLD: &str = "/.told/";
/// The path that slow readers request.
pub(super) const BIG_PATH: &str = "/big";
const BIG: &[u8] = &[b'x'; 256 << 10];
const BACKLOG: u32 = 16_384;
const HEAD_BYTES_MAX: usize = 16 << 10;

/// How many endpoints most situations have.
pub(super) const ENDPOINTS: usize = 4;

/// The capacity of a server.
#[derive(Clone, Copy, Debug, clap::Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Work {
    /// Requests at a time.
    #[arg(long)]
    pub(super) parallel: usize,
    /// Microseconds that a request waits.
    #[arg(long)]
    pub(super) service_us: u64,
    /// Microseconds of CPU time that it costs besides.
    #[arg(long)]
    pub(super) burn_us: u64,
}

/// The capacity in most situations: four endpoints serve 1,000 requests a second.
impl Default for Work {
    fn default() -> Work {
        Work { parallel: 5, service_us: 20_000, burn_us: 0 }
    }
}

/// The `endpoint` task.
pub(crate) fn serve(listen: SocketAddr, work: Work) -> Result<()> {
    end_with_parent()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let state = Rc::new(State::new(work));
    tokio::task::LocalSet::new().block_on(&runtime, async move {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(listen)?;
        accept(socket.listen(BACKLOG)?, state).await
    })
}

struct State {
    work: Work,
    slots: Semaphore,
    /// When those that nobody has were given back, or should have been: timers fire up to a millisecond late,
    /// which the next request makes up for, so that a server does what it can do by its numbers.
    free_since: RefCell<Vec<Instant>>,
    /// How many times as long as usual a request takes.
    slowness: Cell<u32>,
    fails: Cell<bool>,
    taken: Cell<u64>,
}

impl State {
    fn new(work: Work) -> State {
        State {
            work,
            slots: Semaphore::new(work.parallel),
            free_since: RefCell::new(vec![Instant::now(); work.parallel]),
            slowness: Cell::new(1),
            fails: Cell::new(false),
            taken: Cell::new(0),
        }
    }

    async fn answer(&self, path: &str) -> (u16, Cow<'static, [u8]>) {
        match path.strip_prefix(TOLD) {
            Some(told) => {
                let (status, said) = self.obey(told);
                return (status, said.into_bytes().into());
            }
            None if path == BIG_PATH => return (200, BIG.into()),
            None => self.taken.set(self.taken.get() + 1),
        }
        if self.fails.get() {
            return (500, b"it fails\n".into());
        }
        let came = Instant::now();
        // First come, first served.
        let _slot = self.slots.acquire().await;
        let begin = self.take_earliest().max(came);
        let slowness = self.slowness.get();
        let burnt = burn(Duration::from_micros(self.work.burn_us) * slowness);
        let end = begin + burnt + Duration::from_micros(self.work.service_us) * slowness;
        tokio::time::sleep_until(end).await;
        self.free_since.borrow_mut().push(end);
        (200, b"ok\n".into())
    }

    /// Since when the slot is free that was given back first.
    fn take_earliest(&self) -> Instant {
        let mut free = self.free_since.borrow_mut();
        let earliest = (0..free.len()).min_by_key(|&at| free[at]).expect("there is one for each permit");
        free.swap_remove(earliest)
    }

    fn obey(&self, told: &str) -> (u16, String) {
        let (order, value) = told.split_once('/').unwrap_or((told, ""));
        match (order, value.parse()) {
            ("well", _) => {
                self.slowness.set(1);
                self.fails.set(false);
            }
            ("fail", _) => self.fails.set(true),
            ("slow", Ok(times)) => self.slowness.set(times),
            ("taken", _) => return (200, self.taken.get().to_string()),
            // The answers to health checks.
            ("health", _) if self.fails.get() => return (500, String::new()),
            ("health", _) => {}
            _ => return (404, String::new()),
        }
        (200, "ok\n".into())
    }
}

async fn accept(listener: TcpListener, state: Rc<State>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let state = Rc::clone(&state);
        // A fault of a connection ends it.
        tokio::task::spawn_local(async move { converse(stream, &state).await.unwrap_or_default() });
    }
}

async fn converse(mut stream: TcpStream, state: &State) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut read = Vec::with_capacity(1024);
    loop {
        let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else {
            if read.len() > HEAD_BYTES_MAX || stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let head = String::from_utf8_lossy(&read[..end]).into_owned();
        read.drain(..end + 4);
        let mut body = content_length(&head);
        loop {
            let taken = body.min(read.len());
            read.drain(..taken);
            body -= taken;
            if body == 0 {
                break;
            }
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        let (status, body) = state.answer(path).await;
        let answer = format!("HTTP/1.1 {status} Told\r\nContent-Length: {}\r\n\r\n", body.len());
        // In one piece where it is short: two would be two segments.
        match &body {
            Cow::Borrowed(big) if *big == BIG => {
                stream.write_all(answer.as_bytes()).await?;
                stream.write_all(big).await?;
            }
            short => stream.write_all(&[answer.as_bytes(), short].concat()).await?,
        }
        if asks_for_end(&head) {
            return Ok(());
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    headers.find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

pub(super) fn content_length(head: &str) -> usize {
    header(head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0)
}

pub(super) fn asks_for_end(head: &str) -> bool {
    header(head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
}

/// Takes CPU time, of which there is none while the thread is throttled. Returns how long that took.
fn burn(time: Duration) -> Duration {
    let came = Instant::now();
    let used = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
    };
    let begin = used();
    while used().saturating_sub(begin) < time {
        std::hint::spin_loop();
    }
    came.elapsed()
}

/// A running server.
pub(super) struct Endpoint {
    program: Program,
    pub(super) address: SocketAddr,
    // Behind the program, and so dropped after it: a cgroup can go when its processes are gone.
    quota: Option<Quota>,
}

impl Endpoint {
    pub(super) fn start(site: &Site, name: &str, work: Work) -> Result<Endpoint> {
        let address = free_address()?;
        let arguments = [
            address.to_string(),
            format!("--parallel={}", work.parallel),
            format!("--service-us={}", work.service_us),
            format!("--burn-us={}", work.burn_us),
        ];
        let command = this_program("endpoint", arguments)?;
        let mut program = Program::start(name, command, &site.cpus.load, site.folder.path())?;
        program.wait_for(address, &site.interrupt)?;
        Ok(Endpoint { program, address, quota: None })
    }

    /// As many as that, which are alike.
    pub(super) fn start_many(site: &Site, count: usize, work: Work) -> Result<Vec<Endpoint>> {
        (0..count).map(|number| Endpoint::start(site, &format!("endpoint-{number}"), work)).collect()
    }

    /// Holds it to so much CPU time in each period; an error says why that cannot be.
    pub(super) fn hold(&mut self, time: Duration, period: Duration) -> Result<()> {
        self.quota = Some(Quota::hold(self.program.pid(), time, period)?);
        Ok(())
    }

    /// Requests that have come so far.
    pub(super) fn taken(&self) -> Result<u64> {
        self.tell("taken")?.trim().parse().context("no count of requests")
    }

    /// Gives it an order: `slow/N`, `fail`, `well` or `taken`.
    pub(super) fn tell(&self, order: &str) -> Result<String> {
        get(self.address, &format!("{TOLD}{order}"))
    }
}

/// How many requests each has had.
pub(super) fn taken(endpoints: &[Endpoint]) -> Result<Vec<u64>> {
    endpoints.iter().map(Endpoint::taken).collect()
}

/// The share of one of them in what came between two counts.
pub(super) fn share(before: &[u64], after: &[u64], of: usize) -> f64 {
    let grown: Vec<_> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    grown[of] as f64 / grown.iter().sum::<u64>().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_what_came_in_between() {
        assert!((share(&[10, 10], &[13, 11], 0) - 0.75).abs() < 1e-9);
        assert!(share(&[10, 10], &[10, 10], 0).abs() < 1e-9);
    }

    #[test]
    fn it_does_what_it_is_told() -> Result<()> {
        let work = Work { parallel: 1, service_us: 1, burn_us: 0 };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let state = State::new(work);
        runtime.block_on(async {
            assert_eq!(state.answer("/a").await.0, 200);
            assert_eq!(state.answer("/.told/fail").await.0, 200);
            assert_eq!((state.answer("/a").await.0, state.answer("/.told/health").await.0), (500, 500));
            assert_eq!(state.answer("/.told/well").await.0, 200);
            assert_eq!((state.answer("/a").await.0, state.answer("/.told/nonsense").await.0), (200, 404));
            assert_eq!(*state.answer("/.told/taken").await.1, *b"3");
            state.answer("/.told/slow/20").await;
            assert_eq!(state.slowness.get(), 20);
        });
        Ok(())
    }
}

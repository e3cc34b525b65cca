//! Requests in an open loop: each is sent when it is due, whatever became of those before it, by a client
//! that gives up at its deadline.
//!
//! Must not be in here: whom they are sent to, and what figures are made of them.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};
use rustix::net::sockopt::set_socket_linger;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::endpoint::{asks_for_end, content_length};
use super::records::{Outcome, Record, Records};
use crate::child::on_cpus;

/// How long a client waits for its answer.
pub(super) const DEADLINE: Duration = Duration::from_secs(1);
/// Idle connections that are kept.
const IDLE_MAX: usize = 1024;

/// Requests of a kind.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// In a second, at random.
    pub(super) rate: f64,
    pub(super) from: Duration,
    pub(super) until: Duration,
    pub(super) host: String,
    pub(super) path: String,
    /// The clients, in `X-Forwarded-For`; `None` for no such header.
    pub(super) clients: Option<Clients>,
    /// The index of the proxy.
    pub(super) proxy: usize,
}

/// Addresses from `first` on.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Clients {
    pub(super) first: Ipv4Addr,
    pub(super) count: u32,
    #[serde(default)]
    pub(super) order: Order,
}

/// The order in which clients send.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// Each is as likely as the others.
    #[default]
    AtRandom,
    /// Each asks so often in a row, and then the next one.
    InTurn(u32),
}

/// The plan of a load: its clients, rates and times.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) proxies: Vec<SocketAddr>,
    pub(super) streams: Vec<Stream>,
    pub(super) seed: u64,
}

/// A load in progress.
pub(super) struct Running {
    begin: std::time::Instant,
    thread: JoinHandle<Result<Records>>,
}

impl Plan {
    /// Begins, on a thread of its own on these CPUs.
    pub(super) fn start(self, cpus: &[usize]) -> Result<Running> {
        let begin = std::time::Instant::now();
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(LocalSet::new().block_on(&runtime, send_all(self, begin)))
        };
        let thread = on_cpus(cpus, || thread::Builder::new().name("load".into()).spawn(work))??;
        Ok(Running { begin, thread })
    }
}

impl Running {
    /// Sleeps until that much time has passed since its begin.
    pub(super) fn sleep_until(&self, at: Duration) {
        thread::sleep(at.saturating_sub(self.begin.elapsed()));
    }

    /// Waits for the last answer.
    pub(super) fn finish(self) -> Result<Records> {
        self.thread.join().map_err(|_| anyhow!("the thread of the load panicked"))?
    }
}

/// The same numbers for the same seed (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// More than 0, and 1 at most.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Until the next of events that come so often in a second, independently of each other.
    fn pause(&mut self, rate: f64) -> Duration {
        Duration::from_secs_f64((-self.unit().ln() / rate).min(1e6))
    }
}

async fn send_all(plan: Plan, begin: std::time::Instant) -> Records {
    let begin = Instant::from_std(begin);
    let mut random = Random(plan.seed | 1);
    let pools: Vec<_> = plan.proxies.iter().map(|address| Rc::new(Pool::new(*address))).collect();
    let records: Rc<RefCell<Vec<Record>>> = Rc::default();
    let mut due: Vec<_> = plan.streams.iter().map(|stream| stream.from + random.pause(stream.rate)).collect();
    let mut sent = vec![0; plan.streams.len()];
    let mut tasks = Vec::new();
    while let Some((number, at)) = next(&due, &plan.streams) {
        let stream = &plan.streams[number];
        due[number] += random.pause(stream.rate);
        if begin.elapsed() < at {
            tokio::time::sleep_until(begin + at).await;
        }
        let client = stream.clients.map(|clients| clients.one(sent[number], random.next()));
        sent[number] += 1;
        let request = stream.request(client);
        let (pool, records) = (Rc::clone(&pools[stream.proxy]), Rc::clone(&records));
        tasks.push(tokio::task::spawn_local(async move {
            let answered = tokio::time::timeout_at(begin + at + DEADLINE, pool.ask(&request)).await;
            let outcome = match answered {
                Ok(Some(status)) => Outcome::Status(status),
                Ok(None) => Outcome::Failed,
                Err(_) => Outcome::Late,
            };
            records.borrow_mut().push(Record {
                at,
                stream: number,
                outcome,
                took: begin.elapsed().saturating_sub(at),
            });
        }));
    }
    for task in tasks {
        // One that has panicked has no record.
        let _ = task.await;
    }
    Records(records.take())
}

/// The stream whose turn is next, and when.
fn next(due: &[Duration], streams: &[Stream]) -> Option<(usize, Duration)> {
    let going = due.iter().zip(streams).enumerate().filter(|(_, (due, stream))| **due < stream.until);
    going.map(|(number, (due, _))| (number, *due)).min_by_key(|(_, due)| *due)
}

impl Clients {
    /// The client of the next request after `sent` requests.
    fn one(self, sent: u32, random: u64) -> Ipv4Addr {
        let number = match self.order {
            Order::AtRandom => (random >> 32) as u32,
            Order::InTurn(times) => sent / times,
        };
        Ipv4Addr::from(u32::from(self.first).wrapping_add(number % self.count))
    }
}

impl Stream {
    fn request(&self, client: Option<Ipv4Addr>) -> Vec<u8> {
        let client = client.map(|client| format!("X-Forwarded-For: {client}\r\n")).unwrap_or_default();
        format!("GET {} HTTP/1.1\r\nHost: {}\r\n{client}\r\n", self.path, self.host).into_bytes()
    }
}

/// Connections to a proxy. Each is reset when it is closed, so that none keeps a port for a minute.
struct Pool {
    address: SocketAddr,
    idle: RefCell<Vec<TcpStream>>,
}

impl Pool {
    fn new(address: SocketAddr) -> Pool {
        Pool { address, idle: RefCell::default() }
    }

    /// The status of the answer; none where there is none.
    async fn ask(&self, request: &[u8]) -> Option<u16> {
        let idle = self.idle.borrow_mut().pop();
        if let Some(stream) = idle
            && let Some(status) = self.ask_on(stream, request).await
        {
            return Some(status);
        }
        // The proxy may have closed it meanwhile, for which no client gives up.
        let stream = TcpStream::connect(self.address).await.ok()?;
        stream.set_nodelay(true).ok()?;
        set_socket_linger(&stream, Some(Duration::ZERO)).ok()?;
        self.ask_on(stream, request).await
    }

    async fn ask_on(&self, mut stream: TcpStream, request: &[u8]) -> Option<u16> {
        stream.write_all(request).await.ok()?;
        let mut read = Vec::with_capacity(1024);
        let end = loop {
            if stream.read_buf(&mut read).await.ok()? == 0 {
                return None;
            }
            if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
        };
        let head = String::from_utf8_lossy(&read[..end]).into_owned();
        let whole = end + 4 + content_length(&head);
        while read.len() < whole {
            if stream.read_buf(&mut read).await.ok()? == 0 {
                return None;
            }
        }
        if !asks_for_end(&head) && self.idle.borrow().len() < IDLE_MAX {
            self.idle.borrow_mut().push(stream);
        }
        head.split(' ').nth(1)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENTS: Clients =
        Clients { first: Ipv4Addr::new(10, 0, 0, 255), count: 3, order: Order::AtRandom };

    fn stream(rate: f64, until: u64) -> Stream {
        Stream {
            rate,
            from: Duration::ZERO,
            until: Duration::from_secs(until),
            host: "a".into(),
            path: "/".into(),
            clients: Some(CLIENTS),
            proxy: 0,
        }
    }

    #[test]
    fn events_come_as_often_as_they_should() {
        let mut random = Random(7);
        let sum: Duration = (0..10_000).map(|_| random.pause(100.0)).sum();
        assert!((95.0..105.0).contains(&sum.as_secs_f64()), "{sum:?}");
    }

    #[test]
    fn who_is_due_first_is_next_and_streams_end() {
        let (streams, second) = ([stream(1.0, 1), stream(1.0, 5)], Duration::from_secs(1));
        assert_eq!(next(&[second / 2, second / 4], &streams), Some((1, second / 4)));
        assert_eq!(next(&[second, 2 * second], &streams), Some((1, 2 * second)));
        assert_eq!(next(&[second, 5 * second], &streams), None);
    }

    #[test]
    fn clients_have_addresses_in_a_row() {
        assert_eq!(CLIENTS.one(7, 1 << 32), Ipv4Addr::new(10, 0, 1, 0));
        let in_turn = Clients { order: Order::InTurn(2), ..CLIENTS };
        let last_octets: Vec<_> = (0..8).map(|sent| in_turn.one(sent, 0).octets()[3]).collect();
        assert_eq!(last_octets, [255, 255, 0, 0, 1, 1, 255, 255]);
        let request = String::from_utf8(stream(1.0, 1).request(Some(CLIENTS.one(0, 0)))).expect("text");
        assert_eq!(request, "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.0.0.255\r\n\r\n");
    }
}

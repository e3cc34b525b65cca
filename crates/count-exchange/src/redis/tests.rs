//! The thread against a fake Redis: healthy, slow, gone, with another password, or sending nonsense.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clients::Clients;
use clients::quota::{RedisState, RedisUpdate, Subject, Unavailable};
use clock::Clock;
use model::QuotaWindow;
use observe::{MetricsOptions, Process, Registry};

use super::connection::{Connection, FaultKind};
use super::{LimitRedis, PasswordSource, RedisThread};
use crate::parts::Parts;

/// Behaviour of the server.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Well,
    /// The server takes commands and never replies.
    Silent,
    Nonsense,
    /// The server replies with numbers for other commands.
    Beside,
}

/// The part of Redis that the tests need.
#[derive(Clone)]
struct Fake(Arc<Mutex<State>>);

struct State {
    mood: Mood,
    password: Option<&'static str>,
    numbers: HashMap<String, u32>,
    /// Milliseconds that keys are kept.
    kept: Vec<String>,
}

impl Fake {
    fn start() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = State { mood: Mood::Well, password: None, numbers: HashMap::new(), kept: Vec::new() };
        let fake = Self(Arc::new(Mutex::new(state)));
        let server = fake.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                std::thread::spawn(move || server.serve(stream));
            }
        });
        (fake, address)
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap());
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let (mut stream, mut may_enter) = (stream, false);
        loop {
            let command = read(&mut reader)?;
            let answer = self.answer(&command, &mut may_enter);
            stream.write_all(answer.as_bytes())?;
        }
    }

    fn answer(&self, command: &[String], may_enter: &mut bool) -> String {
        let mut state = self.0.lock().unwrap();
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        match (state.mood, words.as_slice()) {
            (Mood::Silent, _) => return String::new(),
            (Mood::Nonsense, _) => return "HTTP/1.1 400 Bad Request\r\n\r\n".to_owned(),
            (_, ["AUTH", said @ ..]) => {
                *may_enter = state.password == said.last().copied();
                let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
                return if *may_enter { "+OK\r\n" } else { wrong }.to_owned();
            }
            _ if state.password.is_some() && !*may_enter => {
                return "-NOAUTH Authentication required.\r\n".to_owned();
            }
            (Mood::Beside, ["TIME"]) => return "*1\r\n:5\r\n".to_owned(),
            _ => {}
        }
        match words.as_slice() {
            ["TIME"] => "*2\r\n$10\r\n1800000000\r\n$6\r\n500000\r\n".to_owned(),
            ["SCRIPT", "LOAD", _] => "$4\r\nabcd\r\n".to_owned(),
            ["EVALSHA", "abcd", "2", at_work, before, add, known, kept] => {
                let numbers = &mut state.numbers;
                let number = numbers.entry((*at_work).to_owned()).or_default();
                *number = (*number + add.parse::<u32>().unwrap()).max(known.parse().unwrap());
                let answer = (*number, numbers.get(*before).copied().unwrap_or(0));
                state.kept.push((*kept).to_owned());
                format!("*2\r\n:{}\r\n:{}\r\n", answer.0, answer.1)
            }
            _ => "+OK\r\n".to_owned(),
        }
    }
}

/// A command, as clients send them: an array of strings.
fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Vec<String>> {
    let number = |reader: &mut BufReader<TcpStream>| {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        line.trim_end()
            .get(1..)
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    };
    let words: usize = number(reader)?;
    let word = |_| {
        let mut bytes = vec![0; number(reader)? + 2];
        reader.read_exact(&mut bytes)?;
        bytes.truncate(bytes.len() - 2);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    (0..words).map(word).collect()
}

/// State shared with a thread that talks to a server.
struct Seen {
    clients: Arc<Clients>,
    registry: Arc<Registry>,
    clock: Clock,
    _thread: RedisThread,
}

impl Seen {
    fn start(redis: LimitRedis) -> Self {
        let start = Clock::begin();
        let clients = Clients::start(1, Some(RedisState::new(Clock::new(start).unix())), || Ok(())).unwrap();
        let registry = Registry::new(MetricsOptions::default());
        let (clock, recorder) = (Clock::new(start), registry.recorder());
        let parts = Parts { clients: Arc::clone(&clients), clock, recorder };
        let thread = RedisThread::start(redis, parts).unwrap();
        Self { clients, registry, clock: Clock::new(start), _thread: thread }
    }

    fn away(&self) -> Option<Unavailable> {
        self.clients.quotas.redis().unwrap().unavailable()
    }

    /// Waits for the ends of exchanges until a condition holds.
    fn await_that(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut exchanges = self.clients.quotas.redis().unwrap().exchanges();
        let until = async {
            while !is_so() {
                exchanges.changed().await.unwrap();
            }
        };
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), until).await.expect(what) });
    }

    fn lacks_word(&self) -> bool {
        self.clock.update();
        self.clients.quotas.needs_redis(subject(), &[window()], self.clock.now())
    }

    fn take(&self) -> u32 {
        self.clock.update();
        let verdict = self.clients.quotas.take(subject(), &[window()], true, self.clock.now());
        verdict.remaining[0].requests
    }

    fn counted(&self, result: &str) -> u64 {
        let mut page = String::new();
        self.registry.encode(&Process::default(), &mut page);
        let name = format!("forebay_limit_redis_exchanges_total{{result=\"{result}\"}} ");
        let value = page.lines().find_map(|line| line.strip_prefix(&name));
        value.expect("a metric").parse().unwrap()
    }
}

fn subject() -> Subject {
    Subject::of(1, true, b"a client")
}

fn window() -> QuotaWindow {
    let number = |number| NonZeroU32::new(number).unwrap();
    QuotaWindow { requests: number(100), seconds: number(3600) }
}

fn at(address: SocketAddr) -> LimitRedis {
    LimitRedis::new(&format!("redis://{address}/0"), None, None).unwrap()
}

#[test]
fn a_url_is_checked_and_not_repeated() {
    let wrong = |url: &str| {
        let why = LimitRedis::new(url, None, None).unwrap_err();
        assert!(!why.contains("secret"), "{why}");
        why
    };
    for url in [
        "",
        "localhost",
        "http://:secret@redis/",
        "unix:///secret",
        "redis://",
        "redis://:secret@redis/five",
        "redis://:secret@redis/-1",
        "rediss://:secret@redis/#insecure",
        "redis://:secret@redis:port/",
    ] {
        wrong(url);
    }
    for url in
        ["redis://redis", "redis://user:secret@[::1]:7000/3", "rediss://:secret@redis/", "valkey://host"]
    {
        let redis = LimitRedis::new(url, None, None).unwrap();
        assert!(!format!("{redis} {redis:?}").contains("secret"));
    }
    let password: PasswordSource = Arc::new(|| Ok("another".to_owned()));
    assert!(LimitRedis::new("redis://:secret@redis/", None, Some(Arc::clone(&password))).is_err());
    assert!(LimitRedis::new("redis://redis/", Some(Vec::new()), None).is_err());
    assert!(
        LimitRedis::new("rediss://redis/", Some(b"-----BEGIN CERTIFICATE-----\nx".to_vec()), None).is_err()
    );
}

#[tokio::test]
async fn keys_hold_digests_and_expire() {
    let (fake, address) = Fake::start();
    let mut connection = Connection::open(&at(address)).await.unwrap();
    let told = |window, add, known| RedisUpdate { subject: 0xabc, seconds: 60, window, add, known };
    let answer = connection.exchange(&[told(7, 2, 2), told(8, 1, 5), told(8, 0, 3)]).await.unwrap();
    assert_eq!(answer.time, Duration::from_millis(1_800_000_000_500));
    let said: Vec<_> = answer.stored.iter().map(|said| (said.count, said.before)).collect();
    assert_eq!(said, [(2, 0), (5, 2), (5, 2)]);
    let state = fake.0.lock().unwrap();
    let key = "forebay:limit:{00000000000000000000000000000abc:60}:7";
    assert_eq!((state.numbers[key], state.kept[0].as_str()), (2, "180000"));
}

#[tokio::test]
async fn each_fault_is_told_apart() {
    let (fake, address) = Fake::start();
    let fault = |redis: LimitRedis| async move {
        match Connection::open(&redis).await {
            Err(fault) => fault.kind,
            Ok(mut connection) => connection.exchange(&[]).await.unwrap_err().kind,
        }
    };
    fake.set(|state| state.mood = Mood::Nonsense);
    assert_eq!(fault(at(address)).await, FaultKind::Garbage);
    fake.set(|state| state.mood = Mood::Beside);
    assert_eq!(fault(at(address)).await, FaultKind::Garbage);
    fake.set(|state| (state.mood, state.password) = (Mood::Well, Some("right")));
    assert_eq!(fault(at(address)).await, FaultKind::Refused);
    let wrong = LimitRedis::new(&format!("redis://:wrong@{address}/"), None, None).unwrap();
    assert_eq!(fault(wrong).await, FaultKind::Refused);
    assert_eq!(fault(at(testkit::Refusing::default().address())).await, FaultKind::Unreachable);
    let unreadable: PasswordSource = Arc::new(|| Err(io::ErrorKind::NotFound.into()));
    let redis = LimitRedis::new(&format!("redis://{address}/"), None, Some(unreadable)).unwrap();
    assert_eq!(fault(redis).await, FaultKind::Unreachable);
}

#[test]
fn what_is_counted_elsewhere_is_known_after_an_exchange() {
    let (fake, address) = Fake::start();
    let (one, other) = (Seen::start(at(address)), Seen::start(at(address)));
    assert!(one.lacks_word(), "nothing is known yet");
    one.await_that("an exchange", || !one.lacks_word());
    assert_eq!((one.take(), one.take()), (99, 98));
    let is_stored = || fake.0.lock().unwrap().numbers.values().any(|number| *number == 2);
    one.await_that("both to be stored", is_stored);
    assert!(other.lacks_word());
    other.await_that("an exchange", || !other.lacks_word());
    assert_eq!(other.take(), 97);
    assert!(one.counted("in_time") + one.counted("slow") > 0);
}

#[test]
fn a_redis_that_stops_answering_is_noticed_and_comes_back() {
    let (fake, address) = Fake::start();
    let seen = Seen::start(at(address));
    seen.await_that("the first exchange", || !seen.lacks_word());
    fake.set(|state| state.mood = Mood::Silent);
    let clock = Clock::new(Clock::begin());
    let begun = clock.now();
    seen.take();
    seen.await_that("it to be slow", || seen.away() == Some(Unavailable::Slow));
    seen.await_that("it to be gone", || seen.away() == Some(Unavailable::Gone));
    clock.update();
    let took = clock.now().since(begun);
    assert!(took >= Duration::from_millis(900), "{took:?}");
    seen.await_that("it to be counted", || seen.counted("silent") > 0);
    // Reported counts are used while they are fresh, and requests are counted here.
    assert_eq!(seen.take(), 98);
    fake.set(|state| (state.mood, state.numbers) = (Mood::Well, HashMap::new()));
    seen.await_that("it to be back", || seen.away().is_none());
    let is_restored = || fake.0.lock().unwrap().numbers.values().any(|number| *number == 2);
    seen.await_that("it to be told what it has forgotten", is_restored);
}

#[test]
fn a_password_that_was_changed_is_read_again() {
    let (fake, address) = Fake::start();
    fake.set(|state| state.password = Some("old"));
    let held = Arc::new(Mutex::new("wrong"));
    let source = Arc::clone(&held);
    let password: PasswordSource = Arc::new(move || Ok((*source.lock().unwrap()).to_owned()));
    let redis = LimitRedis::new(&format!("redis://{address}/"), None, Some(password)).unwrap();
    let seen = Seen::start(redis);
    seen.await_that("it to refuse", || seen.away() == Some(Unavailable::Gone));
    *held.lock().unwrap() = "old";
    seen.await_that("it to let us in", || seen.away().is_none());
    assert!(seen.counted("refused") > 0);
}

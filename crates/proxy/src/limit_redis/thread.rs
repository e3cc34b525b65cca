//! The thread that exchanges counts with Redis: several times a second for what has changed, and at once where a request waits for it.
//!
//! Never in here: what is said, which is `connection`'s.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use observe::{Counter, Recorder};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::LimitRedis;
use super::connection::{Answer, Connection, Fault};
use crate::clients::{Away, Clients, Store, ToStore};
use crate::clock::{Clock, Moment};
use crate::limits::{
    LIMIT_REDIS_ANSWER_TIME, LIMIT_REDIS_COUNTERS_MAX, LIMIT_REDIS_INTERVAL, LIMIT_REDIS_PAUSE_MAX,
    LIMIT_REDIS_PAUSE_MIN, LIMIT_REDIS_QUIET_MAX, LIMIT_REDIS_SLOW,
};
use crate::random::Random;

/// Runs until it is dropped.
#[derive(Debug)]
pub(crate) struct RedisThread {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
pub(crate) struct RedisParts {
    pub(crate) redis: LimitRedis,
    pub(crate) clients: Arc<Clients>,
    pub(crate) clock: Clock,
    pub(crate) recorder: Recorder,
}

struct Running {
    parts: RedisParts,
    random: Random,
    /// The longest that the next pause may be.
    pause: Duration,
    /// The last exchange, or try of one, has failed.
    is_gone: bool,
}

impl RedisThread {
    pub(crate) fn start(parts: RedisParts) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let run = move || {
            let (random, pause) = (Random::new(), LIMIT_REDIS_PAUSE_MIN);
            let mut running = Running { parts, random, pause, is_gone: false };
            runtime.block_on(async {
                tokio::select! {
                    () = stopped.notified() => {}
                    () = running.run() => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("limit-redis".to_owned()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for RedisThread {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // It ends at the next wait, and has nothing that could panic.
            let _ = thread.join();
        }
    }
}

impl Running {
    async fn run(&mut self) {
        loop {
            let fault = self.connect_and_talk().await;
            self.note_gone(&fault);
            let pause = self.pause.mul_f64(1.0 - self.random.chance() / 2.0);
            self.pause = (self.pause * 2).min(LIMIT_REDIS_PAUSE_MAX);
            sleep(pause).await;
        }
    }

    /// Exchanges counts until something goes wrong.
    async fn connect_and_talk(&mut self) -> Fault {
        let mut connection = match self.in_time(Connection::open(&self.parts.redis)).await {
            Ok(connection) => connection,
            Err(fault) => return fault,
        };
        let mut last = None;
        loop {
            let begun = self.now();
            let told = self.parts.clients.quotas.to_store(LIMIT_REDIS_COUNTERS_MAX, begun);
            let is_quiet = last.is_some_and(|last| begun.since(last) < LIMIT_REDIS_QUIET_MAX);
            if !told.is_empty() || !is_quiet {
                match self.in_time(connection.exchange(&told)).await {
                    Ok(answer) => self.take(&told, &answer, begun),
                    Err(fault) => return fault,
                }
                last = Some(begun);
            }
            if told.len() < LIMIT_REDIS_COUNTERS_MAX {
                let _ = timeout(LIMIT_REDIS_INTERVAL, self.store().asked()).await;
            }
        }
    }

    /// Awaits what Redis does, has nobody wait for it who could do without, and gives up on it after a while.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let mut work = pin!(work);
        if let Ok(result) = timeout(LIMIT_REDIS_SLOW, &mut work).await {
            return result;
        }
        if !self.is_gone {
            self.store().set_away(Some(Away::Slow));
        }
        let rest = LIMIT_REDIS_ANSWER_TIME.saturating_sub(LIMIT_REDIS_SLOW);
        timeout(rest, work).await.unwrap_or_else(|_| Err(Fault::silent()))
    }

    /// Takes what Redis says of what it was told.
    fn take(&mut self, told: &[ToStore], answer: &Answer, begun: Moment) {
        let now = self.now();
        let passed = now.since(begun);
        let (store, quotas) = (self.store(), &self.parts.clients.quotas);
        // It has read its clock somewhere between.
        store.set_clock(answer.time.saturating_add(passed / 2), now);
        quotas.stored(told, &answer.stored, passed, now);
        store.set_away(None);
        let is_slow = passed > LIMIT_REDIS_SLOW;
        let counter = if is_slow { Counter::LimitRedisSlow } else { Counter::LimitRedisInTime };
        self.parts.recorder.count(counter);
        if std::mem::take(&mut self.is_gone) {
            tracing::info!(redis = %self.parts.redis, "redis counts for shared limits again");
        }
        self.pause = LIMIT_REDIS_PAUSE_MIN;
    }

    fn note_gone(&mut self, fault: &Fault) {
        self.store().set_away(Some(Away::Gone));
        self.parts.recorder.count(fault.kind.counter());
        if !std::mem::replace(&mut self.is_gone, true) {
            let (redis, error) = (&self.parts.redis, &fault.text);
            tracing::error!(%redis, %error, "redis does not count for shared limits, which go on without it");
        }
    }

    fn store(&self) -> &Store {
        self.parts.clients.quotas.store().expect("the thread is started where there is one")
    }

    fn now(&self) -> Moment {
        self.parts.clock.update();
        self.parts.clock.now()
    }
}

//! The thread that exchanges counts with Redis: several times a second for counts that have changed, and at
//! once where a request waits for it.
//!
//! Never in here: the commands, which are `connection`'s.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use clients::limits::{LIMIT_REDIS_ANSWER_TIME, LIMIT_REDIS_INTERVAL};
use clients::quota::{RedisState, RedisUpdate, Unavailable};
use clock::{Moment, Random};
use observe::Counter;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::LimitRedis;
use super::connection::{Answer, Connection, Fault};
use crate::limits::{REDIS_COUNTERS_MAX, REDIS_PAUSE_MAX, REDIS_PAUSE_MIN, REDIS_QUIET_MAX, REDIS_SLOW};
use crate::parts::Parts;

/// The thread, which runs until this is dropped.
#[derive(Debug)]
pub(crate) struct RedisThread {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

struct Running {
    redis: LimitRedis,
    parts: Parts,
    random: Random,
    /// Upper bound of the next pause between tries.
    pause: Duration,
    /// The last exchange, or the last try to connect, has failed.
    is_gone: bool,
}

impl RedisThread {
    pub(crate) fn start(redis: LimitRedis, parts: Parts) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let run = move || {
            let (random, pause) = (Random::new(), REDIS_PAUSE_MIN);
            let mut running = Running { redis, parts, random, pause, is_gone: false };
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
            // The thread ends at the next wait, and cannot panic.
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
            self.pause = (self.pause * 2).min(REDIS_PAUSE_MAX);
            sleep(pause).await;
        }
    }

    /// Exchanges counts until a failure.
    async fn connect_and_talk(&mut self) -> Fault {
        let mut connection = match self.in_time(Connection::open(&self.redis)).await {
            Ok(connection) => connection,
            Err(fault) => return fault,
        };
        let mut last = None;
        loop {
            let begun = self.now();
            let told = self.parts.clients.quotas.redis_updates(REDIS_COUNTERS_MAX, begun);
            let is_quiet = last.is_some_and(|last| begun.since(last) < REDIS_QUIET_MAX);
            if !told.is_empty() || !is_quiet {
                match self.in_time(connection.exchange(&told)).await {
                    Ok(answer) => self.take(&told, &answer, begun),
                    Err(fault) => return fault,
                }
                last = Some(begun);
            }
            if told.len() < REDIS_COUNTERS_MAX {
                let _ = timeout(LIMIT_REDIS_INTERVAL, self.store().wanted()).await;
            }
        }
    }

    /// Awaits Redis. Once that is slow, requests are told not to wait for it; after a while it fails.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let mut work = pin!(work);
        if let Ok(result) = timeout(REDIS_SLOW, &mut work).await {
            return result;
        }
        if !self.is_gone {
            self.store().set_unavailable(Some(Unavailable::Slow));
        }
        let rest = LIMIT_REDIS_ANSWER_TIME.saturating_sub(REDIS_SLOW);
        timeout(rest, work).await.unwrap_or_else(|_| Err(Fault::silent()))
    }

    /// Applies the replies of Redis.
    fn take(&mut self, told: &[RedisUpdate], answer: &Answer, begun: Moment) {
        let now = self.now();
        let passed = now.since(begun);
        let (store, quotas) = (self.store(), &self.parts.clients.quotas);
        // Redis has read its clock somewhere between, at half of the time on average.
        store.set_clock(answer.time.saturating_add(passed / 2), now);
        quotas.receive_redis(told, &answer.stored, passed, now);
        store.set_unavailable(None);
        let is_slow = passed > REDIS_SLOW;
        let counter = if is_slow { Counter::LimitRedisSlow } else { Counter::LimitRedisInTime };
        self.parts.recorder.count(counter);
        if std::mem::take(&mut self.is_gone) {
            tracing::info!(redis = %self.redis, "redis counts for shared limits again");
        }
        self.pause = REDIS_PAUSE_MIN;
    }

    fn note_gone(&mut self, fault: &Fault) {
        self.store().set_unavailable(Some(Unavailable::Gone));
        self.parts.recorder.count(fault.kind.counter());
        if !std::mem::replace(&mut self.is_gone, true) {
            let (redis, error) = (&self.redis, &fault.text);
            tracing::error!(%redis, %error, "redis does not count for shared limits, which go on without it");
        }
    }

    fn store(&self) -> &RedisState {
        self.parts.clients.quotas.redis().expect("the thread is started where there is one")
    }

    fn now(&self) -> Moment {
        self.parts.clock.update();
        self.parts.clock.now()
    }
}

//! A connection to Redis, and the commands on it.
//!
//! Each fixed window of a client has a key with the number of its requests. A script adds to it, raises it
//! to the known count where that is higher (which heals data loss at Redis), and sets its expiry. Keys hold
//! no text of clients, but a digest.

use std::io;
use std::time::Duration;

use clients::quota::{RedisReply, RedisUpdate};
use observe::Counter;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, Pipeline, RedisError, cmd};

use super::LimitRedis;

/// Prefix of all keys.
const PREFIX: &str = "forebay:limit:";

/// KEYS: the fixed window, and the one before. ARGV: requests to add, requests that are known of, and the
/// expiry in milliseconds.
const SCRIPT: &str = "\
local count = redis.call('INCRBY', KEYS[1], ARGV[1])
local known = tonumber(ARGV[2])
if count < known then
  redis.call('SET', KEYS[1], known)
  count = known
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {count, tonumber(redis.call('GET', KEYS[2]) or 0)}
";

/// Fixed windows for which a number is stored: the current one, the one before, and one for clocks that
/// differ.
const WINDOWS_KEPT: u64 = 3;

/// An open connection, with the digest of the script.
pub(super) struct Connection {
    connection: MultiplexedConnection,
    script: String,
}

/// A failure of Redis, with its text for the log.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) text: String,
}

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// The connection could not be opened, or has ended.
    Unreachable,
    /// Redis does not answer in time.
    Silent,
    /// Redis answers with an error: a wrong password, a command that the user may not use, a read-only
    /// replica.
    Refused,
    /// The reply cannot be parsed.
    Garbage,
}

/// Result of an exchange.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The clock of Redis, since 1970.
    pub(super) time: Duration,
    /// The stored counts, one reply for each update.
    pub(super) stored: Vec<RedisReply>,
}

impl Connection {
    pub(super) async fn open(redis: &LimitRedis) -> Result<Self, Fault> {
        // The caller bounds the time of all of it.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let client = redis.client()?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let script = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut connection).await?;
        Ok(Self { connection, script })
    }

    /// Sends updates to Redis and reads its counts: one pipeline, not a transaction, so that nothing else at
    /// Redis has to wait for it.
    pub(super) async fn exchange(&mut self, told: &[RedisUpdate]) -> Result<Answer, Fault> {
        let mut pipeline = Pipeline::with_capacity(1 + told.len());
        pipeline.cmd("TIME");
        for counter in told {
            let &RedisUpdate { add, known, seconds, .. } = counter;
            let kept = WINDOWS_KEPT * 1000 * u64::from(seconds);
            let command = pipeline.cmd("EVALSHA").arg(&self.script).arg(2);
            command.arg(key(counter, 0)).arg(key(counter, 1)).arg(add).arg(known).arg(kept);
        }
        let said: Vec<Vec<u64>> = pipeline.query_async(&mut self.connection).await?;
        read(&said, told.len()).ok_or_else(|| Fault::garbage("numbers that answer nothing"))
    }
}

/// The key of a counter's fixed window, or of one before. Both have one hash slot, by the part in braces.
fn key(counter: &RedisUpdate, before: u64) -> String {
    let RedisUpdate { subject, seconds, window, .. } = counter;
    format!("{PREFIX}{{{subject:032x}:{seconds}}}:{}", window.saturating_sub(before))
}

/// Parses the replies: two numbers for the time, and two for each counter.
fn read(said: &[Vec<u64>], counters: usize) -> Option<Answer> {
    let (time, said) = said.split_first()?;
    let &[seconds, micros] = time.as_slice() else { return None };
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let one = |said: &Vec<u64>| match *said.as_slice() {
        [count, before] => Some(RedisReply { count: number(count), before: number(before) }),
        _ => None,
    };
    let stored = said.iter().map(one).collect::<Option<Vec<_>>>()?;
    let time = Duration::from_secs(seconds).checked_add(Duration::from_micros(micros))?;
    (stored.len() == counters).then_some(Answer { time, stored })
}

impl Fault {
    pub(super) fn silent() -> Self {
        Self { kind: FaultKind::Silent, text: "no answer in time".to_owned() }
    }

    pub(super) fn unreadable(error: &io::Error) -> Self {
        Self { kind: FaultKind::Unreachable, text: format!("the password cannot be read: {error}") }
    }

    fn garbage(text: &str) -> Self {
        Self { kind: FaultKind::Garbage, text: text.to_owned() }
    }
}

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        let kind = match error.kind() {
            ErrorKind::Io => FaultKind::Unreachable,
            ErrorKind::AuthenticationFailed | ErrorKind::Server(_) | ErrorKind::Extension => {
                FaultKind::Refused
            }
            _ => FaultKind::Garbage,
        };
        Self { kind, text: error.to_string() }
    }
}

impl FaultKind {
    pub(super) fn counter(self) -> Counter {
        match self {
            Self::Unreachable => Counter::LimitRedisUnreachable,
            Self::Silent => Counter::LimitRedisSilent,
            Self::Refused => Counter::LimitRedisRefused,
            Self::Garbage => Counter::LimitRedisGarbage,
        }
    }
}

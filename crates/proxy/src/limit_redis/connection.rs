//! A connection to Redis, and what is said on it.
//!
//! Each fixed window of a client has a key with the number of its requests. A script adds to it, sets it to what is known where that is more, which
//! heals what Redis has forgotten, and lets it expire. Nothing of a key is a client's text: it has a digest.

use std::io;
use std::time::Duration;

use observe::Counter;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, Pipeline, RedisError, cmd};

use super::LimitRedis;
use crate::clients::{Stored, ToStore};

/// What all keys begin with.
const PREFIX: &str = "forebay:limit:";

/// KEYS: the fixed window, and the one before. ARGV: requests to add, requests that are known of, and milliseconds to keep them.
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

/// Fixed windows for which a number is kept: the one at work, the one before, and one for clocks that differ.
const WINDOWS_KEPT: u64 = 3;

/// A connection that is ready, with the digest of the script.
pub(super) struct Connection {
    connection: MultiplexedConnection,
    script: String,
}

/// What went wrong.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) text: String,
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// There is no connection, or it has ended.
    Unreachable,
    /// There is no answer in time.
    Silent,
    /// It answers with an error: a password that is wrong, a command that the user may not use, a replica that cannot be written to.
    Refused,
    /// What it says is no answer.
    Garbage,
}

/// What an exchange has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The clock of Redis, since 1970.
    pub(super) time: Duration,
    /// For each counter that was told.
    pub(super) stored: Vec<Stored>,
}

impl Connection {
    pub(super) async fn open(redis: &LimitRedis) -> Result<Self, Fault> {
        // Whoever calls has a bound for all of it.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let client = redis.client()?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let script = cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut connection).await?;
        Ok(Self { connection, script })
    }

    /// Tells Redis of counters, and what it knows of them: all in one go, for which nothing else at it has to wait.
    pub(super) async fn exchange(&mut self, told: &[ToStore]) -> Result<Answer, Fault> {
        let mut pipeline = Pipeline::with_capacity(1 + told.len());
        pipeline.cmd("TIME");
        for counter in told {
            let &ToStore { add, known, seconds, .. } = counter;
            let kept = WINDOWS_KEPT * 1000 * u64::from(seconds);
            let command = pipeline.cmd("EVALSHA").arg(&self.script).arg(2);
            command.arg(key(counter, 0)).arg(key(counter, 1)).arg(add).arg(known).arg(kept);
        }
        let said: Vec<Vec<u64>> = pipeline.query_async(&mut self.connection).await?;
        read(&said, told.len()).ok_or_else(|| Fault::garbage("numbers that answer nothing"))
    }
}

/// The key of a counter's fixed window, or of one before. Both have one hash slot, by the part in braces.
fn key(counter: &ToStore, before: u64) -> String {
    let ToStore { subject, seconds, slot, .. } = counter;
    format!("{PREFIX}{{{subject:032x}:{seconds}}}:{}", slot.saturating_sub(before))
}

/// Two numbers for the time, and two for each counter.
fn read(said: &[Vec<u64>], counters: usize) -> Option<Answer> {
    let (time, said) = said.split_first()?;
    let &[seconds, micros] = time.as_slice() else { return None };
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let one = |said: &Vec<u64>| match *said.as_slice() {
        [count, before] => Some(Stored { count: number(count), before: number(before) }),
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

//! The counts of shared limits, exchanged with the other replicas or with Redis, on a thread of its own.
//!
//! ```text
//! replicas  the thread that sends counts to the other replicas and receives theirs, over UDP
//! datagram  the format of these datagrams
//! redis     Redis as the common store of all replicas, and the thread that exchanges counts with it
//! parts     inputs of both threads
//! limits    the bounds
//! ```
//!
//! Never in here: requests, and the meaning of a count, which is `clients::quota`'s.

mod datagram;
mod limits;
mod parts;
mod redis;
mod replicas;
#[cfg(test)]
mod simulation;

use std::io;

use aws_lc_rs::hmac::Key;

pub use limits::REDIS_SLOW;
pub use parts::{Parts, Replicas};
pub use redis::{LimitRedis, PasswordSource};

use redis::RedisThread;
use replicas::ReplicasThread;

/// A thread that exchanges counts, until this is dropped.
#[derive(Debug)]
pub struct CountExchange(#[expect(dead_code, reason = "it runs until it is dropped")] Thread);

#[derive(Debug)]
#[expect(dead_code, reason = "they run until they are dropped")]
enum Thread {
    Redis(RedisThread),
    Replicas(ReplicasThread),
}

impl CountExchange {
    /// Exchanges counts with Redis, which counts for all replicas.
    ///
    /// # Errors
    /// When the system has no thread or no descriptor for it.
    pub fn with_redis(redis: LimitRedis, parts: Parts) -> io::Result<Self> {
        RedisThread::start(redis, parts).map(|thread| Self(Thread::Redis(thread)))
    }

    /// Exchanges counts with the other replicas, over UDP at this port, which is the same at all of them.
    /// They authenticate each other by a common key. `replicas` says who they are at the moment.
    ///
    /// # Errors
    /// When there is no randomness, or the system has no thread for it.
    pub fn with_replicas(
        key: Key,
        port: u16,
        replicas: impl Fn() -> Replicas + Send + 'static,
        parts: Parts,
    ) -> io::Result<Self> {
        ReplicasThread::start(key, port, Box::new(replicas), parts)
            .map(|thread| Self(Thread::Replicas(thread)))
    }
}

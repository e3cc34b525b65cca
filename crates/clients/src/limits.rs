//! Every bound on what is remembered of clients that the configuration does not set, with its unit.

use std::time::Duration;

/// Memory for tokens that were verified, all workers together, in bytes; those that are used least are
/// evicted.
pub(crate) const TOKENS_BYTES_MAX: u64 = 64 << 20;
/// Tokens that this is likely to be.
pub(crate) const TOKENS_LIKELY: usize = 16_384;
/// Bytes that a token takes beside those of its text.
pub(crate) const TOKEN_BYTES_FIXED: usize = 256;
/// Forged tokens that are remembered.
pub(crate) const TOKENS_FORGED_MAX: usize = 16_384;
/// Time for which a forged token is remembered.
pub(crate) const TOKENS_FORGED_TIME: Duration = Duration::from_secs(60);
/// Seconds after a forged token for which others of its client are verified after those of other clients.
pub(crate) const TOKENS_SUSPECT_SECONDS: u32 = 10;
/// Forged tokens of a client in a second after which no signature is checked for it.
pub(crate) const TOKENS_FORGED_PER_SECOND: u32 = 100;

/// Clients of rate limits, all workers together; those that have not sent requests for longest are evicted.
pub(crate) const CLIENTS_LIMITED_MAX: usize = 100_000;

/// Counters of quotas, all workers together; those that have not been used for longest are evicted. Each
/// takes some 80 bytes, and some 100 more for each other replica where replicas count together.
pub(crate) const QUOTA_COUNTERS_MAX: usize = 100_000;
/// Interval at which a replica reports its counts to the others.
pub const QUOTA_TELL_INTERVAL: Duration = Duration::from_millis(50);
/// Replicas whose reports are kept for a counter.
pub const REPLICAS_MAX: usize = 64;
/// Interval of exchanges with Redis, where no request waits for one.
pub const LIMIT_REDIS_INTERVAL: Duration = Duration::from_millis(50);
/// Time for an exchange, and for connecting; Redis counts as gone afterwards.
pub const LIMIT_REDIS_ANSWER_TIME: Duration = Duration::from_secs(1);
/// Age up to which a reply of Redis is good enough to decide requests.
pub(crate) const LIMIT_REDIS_REPLY_AGE_MAX: Duration = Duration::from_secs(1);

/// Rows of the sketch in which a worker counts clients within a window.
pub(crate) const ABUSE_SKETCH_ROWS: usize = 3;
/// Counters in a row. Two clients share those of all rows with a chance of one in 4096 to the power of three.
pub(crate) const ABUSE_SKETCH_CELLS: usize = 4096;
/// Clients with exact counts within a window, all workers together.
pub(crate) const ABUSE_TRACKED_MAX: usize = 16_384;
/// Clients that are judged, all workers together; those with the lowest weight are evicted.
pub(crate) const ABUSE_CLIENTS_MAX: usize = 100_000;
/// Values of clients under a verdict that a worker records within a window.
pub(crate) const ABUSE_VALUES_PER_WINDOW: usize = 64;
/// Values of clients under a verdict, all workers together.
pub(crate) const ABUSE_VALUES_MAX: usize = 1024;
/// Characters of a value that operators see.
pub(crate) const ABUSE_VALUE_CHARS_MAX: usize = 64;
/// Ticks of a window.
pub(crate) const ABUSE_TICKS_PER_WINDOW: u64 = 10;
/// Windows of one worker that wait to be judged; with more, the worker goes on counting in its present one.
pub(crate) const ABUSE_WINDOWS_WAITING_MAX: usize = 2;
/// Active clients without which none is far off the others by its rate.
pub(crate) const ABUSE_ACTIVE_CLIENTS_MIN: usize = 10;
/// Requests in a second below which no client is far off.
pub(crate) const ABUSE_RATE_MIN: f32 = 50.0;
/// Multiple of the active clients' median from which on a rate is far off.
pub(crate) const ABUSE_MEDIANS_MIN: f32 = 20.0;
/// A client's share of all requests, or of all faults of a kind, from which on it is far off.
pub(crate) const ABUSE_PART_MIN: f32 = 0.02;
/// Share of faults in a client's own requests or connections from which on it is far off.
pub(crate) const ABUSE_SHARE_MIN: f32 = 0.5;
/// Multiple of the others' share of faults from which on a client is far off.
pub(crate) const ABUSE_SHARE_FACTOR: f32 = 4.0;
/// Errors, unused connections or unused handshakes in a second below which no client is far off.
pub(crate) const ABUSE_FAULTS_MIN: f32 = 10.0;
/// Timeouts of slow clients in a second below which no client is far off.
pub(crate) const ABUSE_SLOW_MIN: f32 = 1.0;
/// Requests and connections of the other clients in a second without which no share is compared.
pub(crate) const ABUSE_OTHERS_MIN: f32 = 1.0;
/// Time of a client's first refusal; it doubles with each further one.
pub(crate) const ABUSE_REFUSAL_TIME: Duration = Duration::from_secs(10);
/// Longest time of a refusal.
pub(crate) const ABUSE_REFUSAL_TIME_MAX: Duration = Duration::from_secs(600);
/// Time without an offence after which one refusal is forgotten.
pub(crate) const ABUSE_FORGIVEN_AFTER: Duration = Duration::from_secs(60);

/// Shards of the table of connections by client, so that workers seldom wait for each other.
pub(crate) const CLIENT_CONNECTIONS_SHARDS: usize = 64;
/// Clients of which workers look for an idle connection to close, at a time.
pub(crate) const CLIENT_EVICTIONS_MAX: usize = 1024;

/// Cached answers of auth services, all workers together.
pub(crate) const AUTH_ANSWERS_MAX: usize = 10_000;
/// Time for which requests do not wait for each other after an answer that may not be cached.
pub(crate) const AUTH_UNSHARED_TIME: Duration = Duration::from_secs(1);
/// Bytes of headers of a cached answer.
pub(crate) const AUTH_ANSWER_BYTES_MAX: usize = 8 << 10;

/// Counters of failures, each for the clients of one hash; 32 KiB.
pub(crate) const FAILURES_CELLS: usize = 4096;

/// Passwords for the users of one Secret that wait to be verified. One takes some tens of milliseconds.
pub(crate) const PASSWORDS_WAITING_MAX: usize = 64;
/// Passwords for all Secrets together that wait to be verified.
pub(crate) const PASSWORDS_WAITING_TOTAL_MAX: usize = 4096;
/// Cached passwords that were right, all workers together.
pub(crate) const PASSWORDS_KNOWN_MAX: usize = 100_000;
/// Passwords of one client, and for one user of a Secret, that wait to be verified.
pub(crate) const PASSWORDS_WAITING_PER_CLIENT_MAX: usize = 16;
pub(crate) const PASSWORDS_WAITING_PER_USER_MAX: usize = 32;
/// Wrong passwords of a client in a window of this length, after which it is refused until that ends.
pub(crate) const PASSWORDS_WRONG_PER_CLIENT: u32 = 20;
pub(crate) const PASSWORDS_WRONG_WINDOW: Duration = Duration::from_secs(10);
/// Wrong passwords that are remembered, all workers together, and for how long.
pub(crate) const PASSWORDS_WRONG_MAX: usize = 16_384;
pub(crate) const PASSWORDS_WRONG_TIME: Duration = Duration::from_secs(60);
/// Longest rest of the thread after a wrong password; it rests for as long as the hash has taken.
pub(crate) const PASSWORDS_REST_MAX: Duration = Duration::from_secs(1);
/// Cost of a bcrypt hash that is computed: 2 to the power of it, some seconds.
pub(crate) const BCRYPT_COST_MAX: u32 = 16;
/// Rounds of a crypt hash that are computed: some seconds.
pub(crate) const SHA_CRYPT_ROUNDS_MAX: u32 = 1_000_000;

/// Used nonces of Digest authentication that have not expired, all workers together; with more, clients are
/// refused.
pub(crate) const NONCES_USED_MAX: usize = 50_000;

/// Bytes of sessions that are kept open, all workers together, and how many they are expected to be.
pub(crate) const SESSIONS_BYTES_MAX: u64 = 32 << 20;
pub(crate) const SESSIONS_KNOWN: usize = 8 << 10;

//! Every bound on the exchange of counts, with its unit.

use std::time::Duration;

/// Datagrams of one report to other replicas; counters that do not fit are sent with the next one.
pub(crate) const REPORT_DATAGRAMS_MAX: usize = 64;
/// Bytes of one datagram that is sent, which no usual network fragments.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 1200;
/// Bytes of the longest datagram of UDP.
pub(crate) const UDP_BYTES_MAX: usize = 65_535;
/// Maximum age of a datagram, and of the lead of its sender's clock.
pub(crate) const DATAGRAM_AGE_MAX: Duration = Duration::from_secs(30);
/// Time between two tries to open the socket for datagrams.
pub(crate) const BIND_INTERVAL: Duration = Duration::from_secs(1);

/// Counters of one exchange with Redis; others are sent with the next one.
pub(crate) const REDIS_COUNTERS_MAX: usize = 2000;
/// Time after which an exchange is slow, and requests no longer wait for it. A request that arrives during
/// another exchange waits for that and for its own.
pub const REDIS_SLOW: Duration = Duration::from_millis(50);
/// Longest time between two exchanges, so that a failure of Redis is noticed.
pub(crate) const REDIS_QUIET_MAX: Duration = Duration::from_secs(1);
/// First pause before a connection to Redis is tried again. Each is twice as long as the one before, less up
/// to half of it at random.
pub(crate) const REDIS_PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause before a connection to Redis is tried again.
pub(crate) const REDIS_PAUSE_MAX: Duration = Duration::from_secs(5);

//! Client connections on their way in: ports and accept loops, and the threads that run them.
//!
//! Each worker is a thread ([`thread`]) that is pinned to a CPU and runs one `reactor`; nothing on it
//! needs `Send`. New configurations, orders of the guard and ticks arrive there from outside. Each worker
//! binds a `SO_REUSEPORT` socket of its own for every port ([`listener`]); ports are opened, closed and
//! retried as the configuration changes. [`parting`] closes client connections one after the other before the
//! process stops; [`ended`] reports a worker whose thread has ended.
//!
//! Never in here: HTTP.

pub(crate) mod ended;
pub(crate) mod listener;
pub(crate) mod parting;
pub(crate) mod thread;

//! Below HTTP: sockets, buffers, pipes, deadlines, and the unsafe system calls. The connections and streams
//! of HTTP/2 that both sides use are here as well ([`h2`]).
//!
//! - A request needs no `setsockopt` and no `epoll_ctl`: `TCP_NODELAY` is inherited from the listener, and an
//!   idle connection stays registered.
//! - A deadline is a number in a column: setting it is a store, and a sweep per tick wakes what is due
//!   ([`deadline`]). Nothing here asks the event loop for a timer; ten ticks a second come from the thread
//!   [`ticker`]. The clock is read once per turn of the loop.
//! - An idle client connection holds no buffer; buffers come from the worker's pool, the last used first
//!   ([`buffer`]).
//!
//! Never in here: requests and routes.

pub(crate) mod boxed;
pub(crate) mod buffer;
pub(crate) mod connection;
pub(crate) mod cpu_share;
pub(crate) mod deadline;
pub(crate) mod event_loop;
pub(crate) mod h2;
pub(crate) mod h3;
pub(crate) mod handed;
pub(crate) mod line;
pub(crate) mod listening;
pub(crate) mod pace;
pub(crate) mod permits;
pub(crate) mod pipe;
pub(crate) mod quic;
pub(crate) mod socket;
pub(crate) mod spare;
pub(crate) mod stream;
pub(crate) mod sys;
pub(crate) mod ticker;
pub(crate) mod tls;
pub(crate) mod turn;
pub(crate) mod vital;
pub(crate) mod wakers;

//! The event loop of one thread: tasks, sockets and timers, over `epoll(7)`.
//!
//! A thread has at most one [`Reactor`], and all of its tasks run there, so that waking a task costs neither
//! an atomic operation nor a reference count: a waker is the number of its task. What another thread wakes
//! goes through a locked list and an `eventfd(2)`.
//!
//! Tasks run in turns: what is woken in a turn runs in the next one. The sockets are polled when no task is
//! ready, when all that are ready have [yielded](yield_now), and after [`limits::TASKS_PER_POLL_MAX`] tasks.
//! A socket is added to the set once, for both directions and for edges only; from then on its readiness is
//! a few bits beside it ([`Source`]). A read that has filled its buffer leaves them set, so that it is tried
//! again before the loop sleeps; a short one clears them, and saves the read that would find nothing.
//!
//! A task that is [`late`] waits for all others whenever it is woken: after each poll, some of them run
//! behind the tasks that are ready. So what slow and hostile clients wake is not what others wait for.
//!
//! A task may do [`limits::BUDGET`] operations on ready sockets in a turn: then it pends, and goes on when
//! the sockets have been polled.
//!
//! Never in here: protocols, buffers, work that blocks, deadlines of connections. The only unsafe code is
//! that of the wakers.

mod core;
mod home;
mod id;
mod join;
pub mod limits;
mod net;
mod ready;
mod run;
mod slab;
mod source;
mod task;
mod timer;
mod waker;
mod wheel;

pub use join::{JoinError, JoinHandle};
pub use net::{TcpListener, TcpStream, UdpSocket};
pub use ready::{Interest, Ready};
pub use run::Reactor;
pub use source::Source;
pub use task::{late, set_late, spawn, spawn_detached, wake_after_poll, yield_now};
pub use timer::{Timer, sleep};

#[cfg(test)]
mod tests;

//! The thread of a worker: pinned to a CPU, one event loop, told of new configurations and of the end.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use routing::Snapshot;
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{Notify, watch};

use crate::clock::Clock;
use crate::limits::EVENT_INTERVAL;
use crate::listen;
use crate::worker::{Parts, Worker};

/// What is told to all workers.
pub(crate) struct Orders {
    /// The configuration in force.
    pub(crate) snapshot: watch::Receiver<Arc<Snapshot>>,
    /// Whether to stop.
    pub(crate) stopping: watch::Receiver<bool>,
}

/// What a worker's thread begins with.
pub(crate) struct Seat {
    /// The CPU that it stays on; none to be moved about.
    pub(crate) cpu: Option<usize>,
    pub(crate) listeners: Vec<StdListener>,
    pub(crate) orders: Orders,
    /// Generation of the configuration that it serves.
    pub(crate) acknowledged: Arc<AtomicU64>,
    /// Notified once per tick.
    pub(crate) ticks: Arc<Notify>,
}

/// Runs a worker to its end.
pub(crate) fn run(seat: Seat, parts: Parts) -> io::Result<()> {
    if let Some(cpu) = seat.cpu {
        let mut set = CpuSet::new();
        set.set(cpu);
        if let Err(error) = sched_setaffinity(None, &set) {
            tracing::warn!(cpu, %error, "cannot pin a worker to its cpu");
        }
    }
    let runtime = runtime(parts.clock.clone())?;
    runtime.block_on(serve(seat, parts))
}

/// The loop has no timers: with them each of its turns would read the clock twice more and arm a timer in the kernel before it
/// sleeps. What is due is looked for at each tick, and ticks come from outside.
fn runtime(clock: Clock) -> io::Result<LocalRuntime> {
    Builder::new_current_thread()
        .enable_io()
        .event_interval(EVENT_INTERVAL)
        .on_thread_unpark(move || clock.update())
        .build_local(LocalOptions::default())
}

async fn serve(seat: Seat, parts: Parts) -> io::Result<()> {
    let Orders { mut snapshot, mut stopping } = seat.orders;
    let first = Arc::clone(&snapshot.borrow_and_update());
    let generation = first.generation;
    let worker = Worker::new(parts, first);
    let ticking = tokio::task::spawn_local(tick(Rc::clone(&worker), seat.ticks));
    let (listeners, accepting) = start_listening(&worker, seat.listeners)?;
    seat.acknowledged.store(generation, Ordering::Release);
    loop {
        tokio::select! {
            changed = snapshot.changed() => {
                if changed.is_err() {
                    break;
                }
                let next = Arc::clone(&snapshot.borrow_and_update());
                let generation = next.generation;
                worker.install(next);
                seat.acknowledged.store(generation, Ordering::Release);
            }
            _ = stopping.wait_for(|stop| *stop) => break,
        }
    }
    for task in accepting {
        task.abort();
    }
    for (listener, local) in &listeners {
        listen::accept_last(&worker, listener, *local).await;
    }
    drop(listeners);
    worker.drain().await;
    ticking.abort();
    worker.tick();
    Ok(())
}

async fn tick(worker: Rc<Worker>, ticks: Arc<Notify>) {
    loop {
        ticks.notified().await;
        worker.tick();
    }
}

type Listening = (Vec<(Rc<TcpListener>, SocketAddr)>, Vec<tokio::task::JoinHandle<()>>);

fn start_listening(worker: &Rc<Worker>, listeners: Vec<StdListener>) -> io::Result<Listening> {
    let (mut open, mut tasks) = (Vec::new(), Vec::new());
    for listener in listeners {
        let local = listener.local_addr()?;
        let listener = Rc::new(TcpListener::from_std(listener)?);
        tasks.push(tokio::task::spawn_local(listen::accept(Rc::clone(worker), Rc::clone(&listener), local)));
        open.push((listener, local));
    }
    Ok((open, tasks))
}
